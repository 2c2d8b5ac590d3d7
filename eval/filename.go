package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestName is the maximum length of one name in a path, in bytes. Common file systems allow 255; the rest is room
// for a suffix while the file is written.
const longestName = 200

// NamePart makes a value part of a file name on any system. It replaces path separators, characters that some system
// forbids, and invisible ones (control characters, marks that change the direction of writing) by _. It also replaces
// every character of a value that is empty or consists of dots.
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

// IsDevice reports whether Windows treats a name in a path as a device, in every folder and with any extension. Such
// names are avoided on all systems, so that a file has the same name everywhere.
func IsDevice(name string) bool { return devices.MatchString(name) }

// FileName turns any text, such as the name of an evaluation from another person, into a file name. The result is
// valid on any system and contains nothing invisible.
func FileName(name string) string { return WholeName(NamePart(name)) }

// WholeName returns a name, shortened if necessary, that no system treats as a device.
func WholeName(name string) string {
	if IsDevice(name) {
		name = "_" + name
	}
	return shortened(name)
}

// shortened returns a name that fits a file system. If it is too long, it returns the beginning, a hash of the name,
// and the end.
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
