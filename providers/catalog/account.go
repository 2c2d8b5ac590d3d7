package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// Account is one of several accounts of a provider: another key, region or server, with limits of its own.
type Account struct {
	Name    string `json:"name"`                  // unique at the provider
	BaseURL string `json:"base_url,omitempty"`    // empty: the provider's
	KeyEnv  string `json:"api_key_env,omitempty"` // empty: KeySource, or the provider's
	// KeySource is the account's instead of KeyEnv; nil: none.
	KeySource *KeySource `json:"api_key_source,omitempty"`
}

// accountMark separates a provider from an account in the name of an account's entry, as package ratelimit does.
const accountMark = "/"

// AccountName returns the name of an account's entry, such as openai/eu.
func AccountName(provider, account string) string { return provider + accountMark + account }

// ProviderOf returns the provider of an account's entry, or the name itself if it is a provider's, and the account.
func ProviderOf(name string) (provider, account string) {
	provider, account, _ = strings.Cut(name, accountMark)
	return provider, account
}

// Has reports whether the entry has an account of a name.
func (e Entry) Has(account string) bool {
	return slices.ContainsFunc(e.Accounts, func(a Account) bool { return a.Name == account })
}

// Each returns the entries where calls are made: those of the accounts, or the entry itself if it has none.
func (e Entry) Each() []Entry {
	if len(e.Accounts) == 0 {
		return []Entry{e}
	}
	all := make([]Entry, len(e.Accounts))
	for i, a := range e.Accounts {
		all[i] = e
		all[i].Name, all[i].Like, all[i].Accounts = AccountName(e.Name, a.Name), cmp.Or(e.Like, e.Name), nil
		all[i].BaseURL = cmp.Or(a.BaseURL, e.BaseURL)
		if a.KeyEnv != "" || a.KeySource != nil {
			all[i].KeyEnv, all[i].KeySource = a.KeyEnv, a.KeySource
		}
	}
	return all
}

// KeyEnvs returns the environment variables of the entry's keys.
func (e Entry) KeyEnvs() (names []string) {
	for _, at := range e.Each() {
		if at.KeyEnv != "" && !slices.Contains(names, at.KeyEnv) {
			names = append(names, at.KeyEnv)
		}
	}
	return names
}
