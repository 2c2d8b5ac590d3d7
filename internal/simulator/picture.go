package simulator

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	_ "image/gif"  // sizes of GIF
	_ "image/jpeg" // of JPEG
	_ "image/png"  // and of PNG
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// picture is an image of a message, as its model sees it: its size, and what tells it from others.
type picture struct {
	kind          string // "png"; "url" if the provider fetches it
	width, height int
	id            string
}

// String returns the line by which the text of a message contains the picture.
func (p picture) String() string {
	return fmt.Sprintf("[picture %s %d×%d %s]", p.kind, p.width, p.height, p.id)
}

var pictureLine = regexp.MustCompile(`\[picture (png|jpeg|gif|webp|url) (\d+)×(\d+) [0-9a-f]{16}\]`)

// pixels returns the pixels of the pictures in a text, and how many pictures it has.
func pixels(text string) (sum, pictures int) {
	for _, found := range pictureLine.FindAllStringSubmatch(text, -1) {
		width, _ := strconv.Atoi(found[2]) // no errors: both are numbers
		height, _ := strconv.Atoi(found[3])
		sum += width * height
		pictures++
	}
	return sum, pictures
}

// inline reads a picture in base64. mime is what the request says of it; vendors refuse one that is something else.
func inline(mime, encoded string) (picture, error) {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return picture{}, complain("The image data is not valid base64.")
	}
	p := picture{id: fmt.Sprintf("%016x", hashOf(string(raw)))}
	if width, height, ok := webp(raw); ok {
		p.kind, p.width, p.height = "webp", width, height
	} else {
		config, kind, err := image.DecodeConfig(bytes.NewReader(raw))
		if err != nil || config.Width < 1 || config.Height < 1 {
			return picture{}, complain("Could not process image")
		}
		p.kind, p.width, p.height = kind, config.Width, config.Height
	}
	if mime != "" && mime != "image/"+p.kind {
		return picture{}, complain("The image was specified using the %s media type, but the image appears to be a image/%s image", mime, p.kind)
	}
	return p, nil
}

// addressed reads the address of a picture: a data URI, or an https URL, which is not fetched.
func addressed(address string) (picture, error) {
	if rest, ok := strings.CutPrefix(address, "data:"); ok {
		mime, encoded, ok := strings.Cut(rest, ";base64,")
		if !ok {
			return picture{}, complain("Invalid base64 image_url.")
		}
		return inline(mime, encoded)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return picture{}, complain("Failed to download image from %s.", address)
	}
	return picture{kind: "url", width: 1024, height: 1024, id: fmt.Sprintf("%016x", hashOf(address))}, nil
}

// webp returns the size of an image in WebP: of the canvas of an extended file, or of its only frame
// (https://developers.google.com/speed/webp/docs/riff_container).
func webp(raw []byte) (width, height int, ok bool) {
	if len(raw) < 30 || string(raw[:4]) != "RIFF" || string(raw[8:12]) != "WEBP" {
		return 0, 0, false
	}
	switch string(raw[12:16]) {
	case "VP8X":
		three := func(at int) int { return int(raw[at]) | int(raw[at+1])<<8 | int(raw[at+2])<<16 }
		return three(24) + 1, three(27) + 1, true
	case "VP8L":
		bits := binary.LittleEndian.Uint32(raw[21:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1, true
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(raw[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(raw[28:]) & 0x3fff), true
	}
	return 0, 0, false
}

// The tokens of a picture, by the vendors' published rules.
func tiledTokens(p picture) int { // OpenAI: 85, and 170 for each tile of 512×512
	w, h := p.width, p.height
	if m := max(w, h); m > 2048 {
		w, h = w*2048/m, h*2048/m
	}
	if m := min(w, h); m > 768 {
		w, h = w*768/m, h*768/m
	}
	return 85 + 170*((w+511)/512)*((h+511)/512)
}

func areaTokens(p picture) int { // Anthropic
	w, h := p.width, p.height
	if m := max(w, h); m > 1568 {
		w, h = w*1568/m, h*1568/m
	}
	return min(1600, w*h/750)
}

func cropTokens(p picture) int { // Google
	if p.width <= 384 && p.height <= 384 {
		return 258
	}
	edge := min(768, max(256, min(p.width, p.height)*2/3))
	return 258 * ((p.width + edge - 1) / edge) * ((p.height + edge - 1) / edge)
}

func squareTokens(p picture) int { // a model of Ollama's: one for 28×28 pixels
	return ((p.width + 27) / 28) * ((p.height + 27) / 28)
}
