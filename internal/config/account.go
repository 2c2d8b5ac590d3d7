package config

import (
	"cmp"
	"maps"
	"strings"

	"github.com/evalfleet/evalfleet/internal/machine/hostname"
	"github.com/evalfleet/evalfleet/providers/catalog"
	"github.com/evalfleet/evalfleet/ratelimit"
)

// accounts reads the accounts of a provider, with the limits of each. An account without a name has that of the variable of
// its key, or of its host, so that its limits do not move to another one when the list changes.
func (y *yamlFile) accounts(v value, provider string) (all []catalog.Account) {
	y.list(v, func(v value) {
		a := catalog.Account{}
		var limits *value
		known := keys{
			"name":        func(v value) { a.Name = y.text(v) },
			"base_url":    func(v value) { a.BaseURL = y.baseURL(v) },
			"api_key_env": func(v value) { a.KeyEnv = y.environmentName(v) },
			"limits":      func(v value) { limits = &v },
		}
		maps.Copy(known, y.keySources(&a.KeySource))
		y.mapping(v, known)
		a.KeyEnv = y.oneKey(v, a.KeyEnv, "", a.KeySource)
		if u, ok := hostname.ParseWeb(a.BaseURL); ok {
			port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
			a.Name = cmp.Or(a.Name, a.KeyEnv, strings.Trim(strings.ReplaceAll(u.Hostname(), ":", "-"), "-")+"-"+port)
		}
		a.Name = cmp.Or(a.Name, a.KeyEnv)

		switch {
		case a.BaseURL == "" && a.KeyEnv == "" && a.KeySource == nil:
			y.refuse(v.place, "add api_key_env or base_url", "an account with neither a key nor an address of its own")
		case a.Name == "":
			y.refuse(v.place, "add name", "an account needs a name if its key is in no variable")
		case a.Name == reservedAccount:
			y.refuse(v.place, "give it another name", "the name %s is reserved", a.Name)
		case !providerName.MatchString(a.Name):
			y.refuse(v.place, "use letters, digits, dot, dash and underscore", "%q is not a valid name of an account", a.Name)
		}
		if limits != nil {
			y.limits(*limits, ratelimit.Scope{Provider: catalog.AccountName(provider, a.Name)}, &y.ofAccounts, keys{
				"models": func(v value) { y.modelLimits(v, catalog.AccountName(provider, a.Name), &y.ofAccounts) },
			})
		}
		all = append(all, a)
	})
	return all
}

// reservedAccount is a word that IDs of limits have in the place of an account.
const reservedAccount = "model"

// checkAccounts refuses accounts that are not different ones.
func (y *yamlFile) checkAccounts(v value, e catalog.Entry) {
	names, places := map[string]bool{}, map[[2]string]string{}
	for _, at := range e.Each() {
		where := [2]string{strings.TrimRight(at.BaseURL, "/"), at.KeyFrom()}
		switch other := places[where]; {
		case names[at.Name]:
			y.refuse(v.key, "give each a name of its own", "two accounts are %s", at.Name)
		case other != "":
			y.refuse(v.key, "remove one of them: their limits would be exceeded", "%s and %s have the same address and key", other, at.Name)
		}
		names[at.Name], places[where] = true, at.Name
	}
}

// chargesReserved reports whether a provider, or an account, counts the tokens that a call reserves.
func chargesReserved(known map[string]catalog.Entry, name string) bool {
	provider, _ := catalog.ProviderOf(name)
	for _, at := range known[provider].Each() {
		if ratelimit.Contains(name, at.Name) && at.ChargesReserved() {
			return true
		}
	}
	return false
}
