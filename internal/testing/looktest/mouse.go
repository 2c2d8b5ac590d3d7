//go:build look

package looktest

import (
	"fmt"

	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

// reach promises the middle of an element, or null unless a user can reach it with the mouse: it is
// there, enabled, at rest and in front of all others.
const reach = `(async () => {
	const find = () => (%s);
	const e = find();
	if (!e || e.disabled || e.getAttribute("aria-disabled") === "true") return null;
	e.scrollIntoView({block: "nearest", inline: "nearest"});
	const middle = () => { const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; };
	const before = middle();
	await new Promise(done => setTimeout(done, 60));
	const [x, y] = middle();
	return find() === e && x === before[0] && y === before[1] && e.contains(document.elementFromPoint(x, y)) ? [x, y] : null;
})()`

// Hover moves the mouse to the element that a script finds, once a user can reach it.
func (b *Browser) Hover(script string) {
	b.t.Helper()
	b.mouse("mouseMoved", b.reached(script))
}

// Click clicks the element that a script finds, once a user can reach it.
func (b *Browser) Click(script string) {
	b.t.Helper()
	at := b.reached(script)
	b.mouse("mouseMoved", at)
	b.mouse("mousePressed", at)
	b.mouse("mouseReleased", at)
}

func (b *Browser) reached(script string) (at []float64) {
	b.t.Helper()
	testrun.EventuallyGot(b.t, fmt.Sprintf("a user can reach %s", script), func() (string, bool) {
		b.Run(fmt.Sprintf(reach, script), &at)
		var text string
		if at == nil {
			b.Run("document.body.innerText", &text)
		}
		return text, at != nil
	})
	return at
}

func (b *Browser) mouse(event string, at []float64) {
	b.t.Helper()
	b.ask("Input.dispatchMouseEvent", map[string]any{"type": event, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
}

// Until waits until a script's value is true.
func (b *Browser) Until(what, script string) {
	b.t.Helper()
	testrun.EventuallyGot(b.t, what, func() (text string, holds bool) {
		b.Run("!!("+script+")", &holds)
		b.Run("document.body.innerText", &text)
		return text, holds
	})
}
