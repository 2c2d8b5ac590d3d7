package config

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/eval"
	"github.com/evalfleet/evalfleet/eval/picture"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
)

const (
	// maxImages bounds the bytes of all different images of an evaluation: they are in memory when it is submitted, and in
	// Redis while it runs.
	maxImages = 512 << 20
	// manyImages are so many bytes of images that their place in Redis is worth a warning.
	manyImages = 64 << 20
)

// foundImage is an image of the evaluation, and the first place where it was found.
type foundImage struct {
	eval.Image
	at place
}

// isImage reports whether a file is an image by its first bytes, whatever its name. A file that cannot be read is none:
// its reader reports that.
func isImage(path string) bool {
	file, err := OpenRegular(path)
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, 12)
	n, _ := io.ReadFull(file, head)
	return picture.TypeOf(head[:n]) != ""
}

// readImage reads an image and stores it by its hash. If ok is false, it has reported the problem at a place: the file
// itself, or where another file names it.
func (s *draft) readImage(at place, path string) (image eval.Image, ok bool) {
	file, err := s.open(path)
	if err != nil {
		s.refuse(at, readable(err), "%v", err)
		return image, false
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, providers.MaxImage+1))
	switch {
	case err != nil:
		s.refuse(at, "", "%v", cause(err))
		return image, false
	case len(raw) > providers.MaxImage:
		size := "more"
		if info, err := file.Stat(); err == nil {
			size = fmt.Sprintf("%d bytes", info.Size())
		}
		s.refuse(at, "scale it down", "the image of %s is too large: at most %d bytes are read", size, providers.MaxImage)
		return image, false
	}
	return s.keepImage(at, filepath.Base(path), raw)
}

// keepImage checks an image and stores it by its hash.
func (s *draft) keepImage(at place, name string, raw []byte) (image eval.Image, ok bool) {
	found, err := picture.Describe(raw)
	if err != nil {
		s.refuse(at, "", "%v", err)
		return image, false
	}
	content := "data:" + found.Type + ";base64," + base64.StdEncoding.EncodeToString(raw)
	image = eval.Image{
		Hash: eval.TextHash(content), Name: shownName(name), Type: found.Type, Width: found.Width, Height: found.Height, Bytes: len(raw),
	}
	if _, known := s.texts[image.Hash]; !known {
		if s.imageBytes += len(raw); s.imageBytes > maxImages {
			s.refuse(at, "scale images down, or split the evaluation", "the images have more than %d bytes in all", maxImages)
			return image, false
		}
		s.texts[image.Hash] = content
		s.images = append(s.images, foundImage{image, at})
	}
	return image, true
}

// shownName returns a file's name as it is shown: one that is no name for people has no place in texts.
func shownName(name string) string {
	if !nameable(name) {
		return "image"
	}
	return name
}

// addImage adds a document that is one image.
func (set *documentSet) addImage(file string, doc foundDocument) {
	doc.at = place{file: file}
	image, ok := set.draft.readImage(doc.at, file)
	if !ok {
		return
	}
	doc.turns, doc.images = true, []eval.Image{image}
	doc.text = eval.EncodeTurns([]eval.Turn{{Parts: []eval.Part{{Image: image.Hash}}}})
	set.add(doc)
}

// checkImages refuses judges that are not known to take images, and images that their endpoints do not take, before
// anything is paid.
func (s *draft) checkImages() {
	if !s.asked.HasImages() {
		return
	}
	if s.imageBytes > manyImages {
		s.warn(s.top, "scale them down if models need not see that much", "the images take about %s of Redis", wording.Bytes(int64(s.imageBytes)))
	}
	judges, places := slices.Clone(s.asked.Judges), slices.Clone(s.judgesAt)
	if s.asked.Panel != nil {
		judges, places = append(judges, s.asked.Panel.Agents...), append(places, s.agentsAt...)
	}
	if f := s.settings.Fallback; f != nil {
		judges, places = append(judges, f.Judges()...), append(places, s.fallbackAt...)
	}

	for i, judge := range judges {
		entry, known := s.known[judge.Provider]
		if !known { // which is reported
			continue
		}
		if !s.sees(places[i], judge) {
			continue
		}
		for _, image := range s.images {
			if err := entry.ImageBounds().Check(image.sent(), image.Bytes); err != nil {
				s.refuse(image.at, "change the image, or ask another model", "%s cannot be asked: %v", judge.Target(), err)
			}
		}
	}
}

// sent returns the image as endpoints check it.
func (i foundImage) sent() providers.Image {
	return providers.Image{Type: i.Type, Data: strings.TrimPrefix(i.Type, "image/"), Width: i.Width, Height: i.Height}
}

// sees reports whether a model is known to take images, and refuses it otherwise.
func (s *draft) sees(at place, judge eval.Judge) bool {
	own := "providers." + judge.Provider + ".models"
	switch s.known[judge.Provider].Capabilities(judge.Model).Images {
	case providers.Sees:
		return true
	case providers.Blind:
		s.refuse(at, "ask a model that takes images", "%s takes no images, and documents show some", judge.Target())
	default:
		s.refuse(at, "set images: true for it under "+own+" if it does", "it is not known whether %s takes images, and documents show some",
			judge.Target())
	}
	return false
}

// imagesOf reads the images that a prompt shows, in their order, for a model that has to take them. If ok is false, it
// has reported why the prompt cannot be asked.
func (s *draft) imagesOf(at place, written eval.Conversation, judge eval.Judge) (images []eval.Image, ok bool) {
	bounds, seen := s.known[judge.Provider].ImageBounds(), false
	for _, turn := range written.Turns {
		for _, m := range turn {
			for _, shown := range m.Images {
				if seen = seen || s.sees(at, judge); !seen {
					return nil, false
				}
				image, ok := s.namedImage(at, shown.Name)
				if !ok {
					return nil, false
				}
				if err := bounds.Check(foundImage{Image: image}.sent(), image.Bytes); err != nil {
					s.refuse(at, "change the image, or ask another model", "%s cannot be asked: %v", judge.Target(), err)
					return nil, false
				}
				images = append(images, image)
			}
		}
	}
	return images, true
}

// namedImage returns the image that a prompt names: a data URI, an https URL, or a file beside the prompt's or, as in
// prompto, in the folder media beside that.
func (s *draft) namedImage(at place, name string) (image eval.Image, ok bool) {
	switch scheme, _, _ := strings.Cut(name, ":"); scheme {
	case "https":
		if len(name) > maxID || !nameable(name) {
			s.refuse(at, fmt.Sprintf("use at most %d printable characters", maxID), "the URL of an image cannot be read")
			return image, false
		}
		image = eval.Image{Hash: eval.TextHash(name), Name: name}
		if _, known := s.texts[image.Hash]; !known {
			s.texts[image.Hash] = name
			s.images = append(s.images, foundImage{image, at})
		}
		return image, true
	case "http":
		s.refuse(at, "use https", "the URL of an image is not encrypted: %s", printable(name))
		return image, false
	case "data":
		return s.dataImage(at, name)
	}

	path, ok := s.beside(at, name)
	if !ok {
		return image, false
	}
	here := realPath(s.dir)
	if media := filepath.Join(filepath.Dir(here), "media"); filepath.Base(here) == "input" && openable(path) != nil {
		if path = inFolder(media, name); !s.mayRead(at, media, path) {
			return image, false
		}
	}
	if openable(path) != nil {
		s.refuse(at, "put it beside the experiment, or into the folder media beside the folder input", "no image %s", printable(name))
		return image, false
	}
	return s.readImage(at, path)
}

// dataImage returns the image in a data URI.
func (s *draft) dataImage(at place, uri string) (image eval.Image, ok bool) {
	kind, encoded, isBase64 := strings.Cut(strings.TrimPrefix(uri, "data:"), ";base64,")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !isBase64 || err != nil {
		s.refuse(at, "write data:image/png;base64,…", "the data of an image is not in base64")
		return image, false
	}
	if found := picture.TypeOf(raw); found != kind {
		s.refuse(at, "write the type that it is", "the data of an image is said to be %s, and is %s", printable(kind), cmp.Or(found, "no image"))
		return image, false
	}
	return s.keepImage(at, "image", raw)
}
