package simulator

import "strings"

// What seldom or never stands side by side in good English. The lists are short
// on purpose: a judge need not find every slip, but must not find many where
// there are none.
var (
	afterArticle = set(`a an the of and or but is are was were to in on at for from with by which it they he she we has have`)
	afterModal   = set(`of has had was is are been were went did does goes gone took made sat knew became`)
	modals       = set(`can could will would should must may might can't couldn't won't wouldn't shouldn't mustn't`)
	afterTo      = set(`was had is are been were went did does took made sat knew became kept had has`)
	perfect      = set(`have has had`)
	notPerfect   = set(`went did took broke wrote began knew ate saw gave fell drove spoke chose forgot are is was`)
	plural       = set(`they we you`)
	notPlural    = set(`is was has does goes`)
	singular     = set(`he she it`)
	notSingular  = set(`are am don't`)
	notI         = set(`is are has does goes`)
	comparatives = set(`better best worse worst cheaper safer larger bigger smaller easier harder dearer faster slower stronger thinner older newer larger higher lower`)
	thanWords    = set(`more less rather other better worse cheaper safer larger bigger smaller easier harder faster higher lower longer`)
	afterToo     = set(`be been the a an to me him them`)
	piles        = set(`so/because but/however so/therefore and/but because/since however/but therefore/because`)
	// An h, u or o whose sound is not that of its letter.
	vowelSound     = []string{"hour", "honest", "honour", "honor", "heir"}
	consonantSound = []string{"uni", "use", "usu", "uti", "euro", "one", "once", "ubi"}
)

// slip reports whether two adjoining words, lower case, make a slip of grammar.
func slip(a, b string) bool {
	switch {
	case a == "a" && soundsOpen(b), a == "an" && !soundsOpen(b),
		(a == "a" || a == "an" || a == "the") && afterArticle[b],
		modals[a] && afterModal[b],
		a == "to" && afterTo[b],
		perfect[a] && notPerfect[b],
		plural[a] && notPlural[b],
		singular[a] && notSingular[b],
		a == "i" && notI[b],
		(a == "more" || a == "most") && comparatives[b],
		thanWords[a] && b == "then",
		a == "too" && afterToo[b],
		a == "their" && notPlural[b], a == "there" && b == "own",
		piles[a+"/"+b]:
		return true
	}
	return false
}

// soundsOpen: "an" belongs before w. A single letter may sound either way.
func soundsOpen(w string) bool {
	for _, start := range vowelSound {
		if strings.HasPrefix(w, start) {
			return true
		}
	}
	for _, start := range consonantSound {
		if strings.HasPrefix(w, start) {
			return false
		}
	}
	return strings.Contains("aeiou", w[:1])
}

// fillers are phrases that say nothing, between spaces.
var fillers = []string{
	" and stuff ", " you know ", " or whatever ", " and so on ", " things like that ",
	" kind of like ", " sort of like ", " basically ", " so anyway ", " like i said ", " or something ",
}

// connectives tie a sentence to the one before it.
var connectives = set(`however therefore but also so then and moreover furthermore because thus consequently`)

// dangling words cannot end a sentence.
var dangling = set(`a an the and or but because than my our their if although every very into when`)
