package providertest

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/providers"
)

// Image returns a PNG of a size.
func Image(t testing.TB, width, height int) providers.Image {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return providers.Image{
		Type: providers.PNG, Data: base64.StdEncoding.EncodeToString(file.Bytes()), Width: width, Height: height,
	}
}

// images checks that the images of a message arrive in their order, that they are counted, and that nothing is sent to a
// model that is known not to see.
func images(t *testing.T, d Dialect) {
	s := d.start(t, simulator.Config{})
	req, plain := d.request(), d.request()
	const before, between = "The first is\n", "and the second\n"
	req.Messages = []providers.Message{{Role: providers.User, Content: before + between + "Which is larger?"}}
	plain.Messages = []providers.Message{{Role: providers.User, Content: before + between + "Which is larger?"}}
	small, large := Image(t, 640, 480), Image(t, 1600, 900)
	small.Offset, large.Offset = len(before), len(before+between)
	req.Messages[0].Images = []providers.Image{small, large}

	result := s.answer(t, req)
	if want := "a picture of 640×480 pixels (png), a picture of 1600×900 pixels (png) and"; !strings.Contains(result.Text, want) {
		t.Errorf("got %s, want %q", brief(result), want)
	}
	if text := s.answer(t, plain); result.Usage.Input < text.Usage.Input+500 {
		t.Errorf("%d tokens with the images, %d without", result.Usage.Input, text.Usage.Input)
	}

	blind := d
	blind.Capabilities.Images = providers.Blind
	before1, _ := s.calls()
	_, err := s.make(t, blind).Call(t.Context(), req)
	if after, _ := s.calls(); providers.ClassOf(err) != providers.BadRequest || after != before1 {
		t.Errorf("a model that does not see: got %v and %d requests, want %s and none", err, after-before1, providers.BadRequest)
	}
}
