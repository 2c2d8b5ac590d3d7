package picture

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

func encoded(t testing.TB, kind string, width, height int) []byte {
	t.Helper()
	var file bytes.Buffer
	picture := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White})
	var err error
	switch kind {
	case "png":
		err = png.Encode(&file, picture)
	case "jpeg":
		err = jpeg.Encode(&file, picture, nil)
	case "gif":
		err = gif.Encode(&file, picture, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// sized returns a PNG whose header claims another size.
func sized(t testing.TB, width, height uint32) []byte {
	file := encoded(t, "png", 1, 1)
	binary.BigEndian.PutUint32(file[16:], width)
	binary.BigEndian.PutUint32(file[20:], height)
	binary.BigEndian.PutUint32(file[29:], crc32.ChecksumIEEE(file[12:29]))
	return file
}

func animated(t testing.TB) []byte {
	t.Helper()
	var file bytes.Buffer
	frame := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White})
	if err := gif.EncodeAll(&file, &gif.GIF{Image: []*image.Paletted{frame, frame}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A lossy and a lossless image in WebP, as cwebp writes them.
func unbased(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const lossless = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="

// extended returns a WebP with a canvas.
func extended(flags byte, width, height int) []byte {
	file := []byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00")
	file = append(file, flags, 0, 0, 0, byte(width-1), byte((width-1)>>8), 0, byte(height-1), byte((height-1)>>8), 0)
	return file
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	png, jpeg, gif := encoded(t, "png", 640, 480), encoded(t, "jpeg", 64, 48), encoded(t, "gif", 5, 4)
	for name, test := range map[string]struct {
		file  []byte
		want  Picture
		wrong string // in the error; empty: none
	}{
		"PNG":               {png, Picture{"image/png", 640, 480}, ""},
		"JPEG":              {jpeg, Picture{"image/jpeg", 64, 48}, ""},
		"GIF":               {gif, Picture{"image/gif", 5, 4}, ""},
		"WebP, lossless":    {unbased(t, lossless), Picture{"image/webp", 1, 1}, ""},
		"WebP, extended":    {extended(0, 300, 200), Picture{"image/webp", 300, 200}, ""},
		"nothing":           {nil, Picture{}, "not an image"},
		"a text":            {[]byte("<svg xmlns=\"http://www.w3.org/2000/svg\"/>"), Picture{}, "not an image"},
		"the header alone":  {png[:8], Picture{}, "damaged"},
		"a truncated PNG":   {png[:len(png)-20], Picture{}, "incomplete"},
		"a truncated JPEG":  {jpeg[:len(jpeg)-2], Picture{}, "incomplete"},
		"a truncated GIF":   {gif[:len(gif)-1], Picture{}, "incomplete"},
		"a truncated WebP":  {unbased(t, lossless)[:31], Picture{}, "incomplete"},
		"a PNG with a ZIP":  {append(bytes.Clone(png), "PK\x03\x04"...), Picture{}, "has 4 bytes after the image"},
		"a GIF with a page": {append(bytes.Clone(gif), "<script>"...), Picture{}, "has 8 bytes after the image"},
		"no pixels":         {sized(t, 0, 1), Picture{}, "damaged"},
		"100,000×100,000":   {sized(t, 100_000, 100_000), Picture{}, "too large"},
		"a long strip":      {sized(t, 16_385, 1), Picture{}, "too large"},
		"16,000×16,000":     {sized(t, 16_000, 16_000), Picture{}, "too large"},
		"an animated GIF":   {animated(t), Picture{}, "animated"},
		"an animated WebP":  {extended(2, 300, 200), Picture{}, "animated"},
	} {
		got, err := Describe(test.file)
		switch {
		case test.wrong == "" && (err != nil || got != test.want):
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, test.want)
		case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)):
			t.Errorf("%s: got %+v, %v; want an error with %q", name, got, err, test.wrong)
		}
	}
}

// A file that unpacks to gigabytes is refused by its header, without the memory for its pixels.
func TestNoPixelIsDecoded(t *testing.T) {
	t.Parallel()
	bomb := sized(t, 16_000, 4_000)
	if _, err := Describe(bomb); err != nil {
		t.Fatal(err)
	}
	if bytes := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_, _ = Describe(bomb)
		}
	}).AllocedBytesPerOp(); bytes > 1<<16 {
		t.Errorf("reading the header of 64 million pixels allocates %d bytes", bytes)
	}
}

func FuzzDescribe(f *testing.F) {
	for _, kind := range []string{"png", "jpeg", "gif"} {
		f.Add(encoded(f, kind, 3, 2))
	}
	f.Add(extended(0, 3, 2))
	f.Add(animated(f))
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := Describe(file)
		if err == nil && (p.Width < 1 || p.Height < 1 || p.Width > MaxEdge || p.Height > MaxEdge || TypeOf(file) != p.Type) {
			t.Errorf("got %+v without an error", p)
		}
	})
}
