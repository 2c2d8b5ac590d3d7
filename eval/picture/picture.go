// Package picture tells what an image file is, by its headers alone: it decodes no pixels, so that a file which unpacks
// to gigabytes costs nothing.
package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // sizes of GIF
	_ "image/jpeg" // of JPEG
	_ "image/png"  // and of PNG
)

// Picture is what the headers of a file say.
type Picture struct {
	Type          string // MIME type
	Width, Height int
}

// Bounds on the pixels of an image. Browsers, which decode it to show it, need four bytes for each.
const (
	MaxEdge   = 16_384
	MaxPixels = 64 << 20
)

var signatures = []struct {
	kind  string
	begin string
}{
	{"image/png", "\x89PNG\r\n\x1a\n"}, {"image/jpeg", "\xff\xd8\xff"}, {"image/gif", "GIF87a"}, {"image/gif", "GIF89a"},
}

// TypeOf returns the MIME type of a PNG, JPEG, GIF or WebP file, given at least its first 12 bytes. It returns an empty
// string for any other file.
func TypeOf(head []byte) string {
	for _, s := range signatures {
		if bytes.HasPrefix(head, []byte(s.begin)) {
			return s.kind
		}
	}
	if len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP" {
		return "image/webp"
	}
	return ""
}

// Describe returns what a file is. Its error says what is wrong with an image: it is incomplete, animated, too large, or
// is followed by other data.
func Describe(file []byte) (Picture, error) {
	p := Picture{Type: TypeOf(file)}
	var err error
	switch p.Type {
	case "":
		return p, errors.New("not an image in PNG, JPEG, GIF or WebP")
	case "image/webp":
		p.Width, p.Height, err = webp(file)
	default:
		var config image.Config
		if config, _, err = image.DecodeConfig(bytes.NewReader(file)); err != nil {
			return p, errors.New("the image is damaged: its size cannot be read")
		}
		p.Width, p.Height = config.Width, config.Height
	}
	if err != nil {
		return p, err
	}

	switch {
	case p.Width < 1 || p.Height < 1:
		return p, fmt.Errorf("the image has no pixels: %d×%d", p.Width, p.Height)
	case max(p.Width, p.Height) > MaxEdge || p.Width*p.Height > MaxPixels:
		return p, fmt.Errorf("the image of %d×%d pixels is too large: at most %d in each direction, and %d in all", p.Width, p.Height,
			MaxEdge, MaxPixels)
	}
	return p, whole(p.Type, file)
}

// errCut means that a file ends before its image does.
var errCut = errors.New("the image is incomplete: its end is missing")

// errAnimated means that a file has several images. Models would see only one of them.
var errAnimated = errors.New("the image is animated, and models see one frame: save that frame as PNG")

// whole reports what is wrong between the header of a file and its end.
func whole(kind string, file []byte) error {
	switch kind {
	case "image/png":
		return wholePNG(file)
	case "image/gif":
		return wholeGIF(file)
	case "image/jpeg":
		if !bytes.Contains(file[2:], []byte{0xff, 0xd9}) { // cameras write more after it
			return errCut
		}
	}
	return nil
}

// follows returns an error if other data follows the image in a file. Such a file can be two things at once.
func follows(file []byte, end int) error {
	if more := len(file) - end; more > 0 {
		return fmt.Errorf("the file has %d bytes after the image: save the image again", more)
	}
	return nil
}

// wholePNG goes through the chunks.
func wholePNG(file []byte) error {
	for at := 8; at+12 <= len(file); {
		length := int(binary.BigEndian.Uint32(file[at:]))
		name := string(file[at+4 : at+8])
		next := at + 12 + length
		switch {
		case next > len(file):
			return errCut
		case name == "IEND":
			return follows(file, next)
		case name == "acTL":
			return errAnimated
		}
		at = next
	}
	return errCut
}

// wholeGIF goes through the blocks.
func wholeGIF(file []byte) error {
	table := func(flags byte) int {
		if flags&0x80 == 0 {
			return 0
		}
		return 3 << (flags&7 + 1)
	}
	if len(file) < 13 {
		return errCut
	}

	at, frames := 13+table(file[10]), 0
	blocks := func() {
		for at < len(file) && file[at] != 0 {
			at += 1 + int(file[at])
		}
		at++
	}

	for at < len(file) {
		switch file[at] {
		case 0x3b:
			return follows(file, at+1)
		case 0x21:
			at += 2
			blocks()
		case 0x2c:
			if frames++; frames > 1 {
				return errAnimated
			}
			if at+10 > len(file) {
				return errCut
			}
			at += 11 + table(file[at+9])
			blocks()
		default:
			return errors.New("the image is damaged: it has an unknown block")
		}
	}
	return errCut
}

// webp returns the size of an image in WebP: of the canvas of an extended file, or of its only frame
// (https://developers.google.com/speed/webp/docs/riff_container).
func webp(file []byte) (width, height int, err error) {
	if len(file) < 30 {
		return 0, 0, errCut
	}
	end := 8 + int(binary.LittleEndian.Uint32(file[4:]))
	end += end & 1
	if end > len(file) {
		return 0, 0, errCut
	}
	if err := follows(file, end); err != nil {
		return 0, 0, err
	}

	switch string(file[12:16]) {
	case "VP8X":
		if file[20]&2 != 0 {
			return 0, 0, errAnimated
		}
		of := func(at int) int { return 1 + (int(file[at]) | int(file[at+1])<<8 | int(file[at+2])<<16) }
		return of(24), of(27), nil
	case "VP8L":
		bits := binary.LittleEndian.Uint32(file[21:])
		return 1 + int(bits&0x3fff), 1 + int(bits>>14&0x3fff), nil
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(file[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(file[28:]) & 0x3fff), nil
	}
	return 0, 0, errors.New("the image is damaged: it has an unknown kind of WebP")
}
