package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestName is the maximum length of one name in a path, in bytes: the 255 of common file
// systems, with room for a suffix while the file is written.
const longestName = 200

// NamePart makes a value part of one file name on any system: path separators, characters that
// some system forbids, and invisible ones (control characters, marks that change the direction
// of writing) become _, as does a value that is empty or made of dots.
func NamePart(value string) string {
	if strings.Trim(value, ".") == "" {
		return strings.Repeat("_", max(len(value), 1))
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || strings.ContainsRune(`/\<>:"|?*`, r) || !unicode.IsGraphic(r) {
			return '_'
		}
		return r
	}, value)
}

var devices = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|:|$)`)

// IsDevice reports whether Windows takes a name in a path for a device, in every folder
// and with every extension. Such names are avoided everywhere, so that a file means the
// same on all systems.
func IsDevice(name string) bool { return devices.MatchString(name) }

// FileName returns a name that files of any system can have, in which nothing is hidden: that
// of an evaluation, for example, which may come from another person.
func FileName(name string) string { return WholeName(NamePart(name)) }

// WholeName returns a name, shortened, which no system takes for a device.
func WholeName(name string) string {
	if IsDevice(name) {
		name = "_" + name
	}
	return shortened(name)
}

// shortened is name, or its beginning, a hash of it and its end where it is too long
// for a file's name.
func shortened(name string) string {
	if len(name) <= longestName {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	middle := "_" + hex.EncodeToString(hash[:6]) + "_"
	const end = 40
	head := strings.ToValidUTF8(name[:longestName-len(middle)-end], "")
	return head + middle + strings.ToValidUTF8(name[len(name)-end:], "")
}
