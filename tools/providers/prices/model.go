package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// model is an entry of one of the source's files.
type model struct {
	ID       string
	Match    clause
	Checked  string `yaml:"prices_checked"`
	Comments string `yaml:"price_comments"`
	Removed  bool
	Window   int `yaml:"context_window"`
	Prices   any // prices, or a list of prices with constraints
}

// clause says which names belong to a model.
type clause struct {
	Equals     string
	StartsWith string `yaml:"starts_with"`
	EndsWith   string `yaml:"ends_with"`
	Contains   string
	Regex      string
	Or, And    []clause
}

func (c clause) matches(name string) bool {
	switch {
	case c.Equals != "":
		return strings.EqualFold(name, c.Equals)
	case c.StartsWith != "":
		return strings.HasPrefix(name, strings.ToLower(c.StartsWith))
	case c.EndsWith != "":
		return strings.HasSuffix(name, strings.ToLower(c.EndsWith))
	case c.Contains != "":
		return strings.Contains(name, strings.ToLower(c.Contains))
	case c.Regex != "":
		pattern, err := regexp.Compile(c.Regex)
		return err == nil && pattern.MatchString(name)
	case len(c.And) > 0:
		return !slices.ContainsFunc(c.And, func(c clause) bool { return !c.matches(name) })
	}
	return slices.ContainsFunc(c.Or, func(c clause) bool { return c.matches(name) })
}

var (
	whole = regexp.MustCompile(`^[a-z0-9.-]*[a-z0-9]$`)       // a complete name of the vendor
	cut   = regexp.MustCompile(`-20\d\d(-?\d\d)?$`)           // a name that ends within a date
	dated = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`) // a name of a dated version
)

// named returns the names that the clause states. A row covers whole names and their dated versions, so for a prefix
// only the prefix itself is returned.
func (c clause) named() (names []string) {
	for _, name := range []string{c.Equals, c.StartsWith} {
		if name != "" && (name == c.Equals || !cut.MatchString(name)) {
			names = append(names, name)
		}
	}
	for _, c := range c.Or {
		names = append(names, c.named()...)
	}
	return names
}

// names returns the model's names that begin with prefix. It leaves out names that the source assigns to an earlier
// model, because the first match counts, and dated versions of another of the names.
func (m model) names(earlier []model, prefix string) (names []string) {
	for _, name := range append([]string{m.ID}, m.Match.named()...) {
		undated := dated.ReplaceAllString(name, "")
		switch {
		case !strings.HasPrefix(name, prefix), !whole.MatchString(name), !m.Match.matches(name), slices.Contains(names, name),
			undated != name && m.Match.matches(undated),
			slices.ContainsFunc(earlier, func(before model) bool { return before.Match.matches(name) }):
		default:
			names = append(names, name)
		}
	}
	return names
}

// versioned returns a dated version of one of the names that a model other than id states; empty: there is none. A row
// of the undated name would wrongly cover that version.
func versioned(names []string, id string, models []model) string {
	for _, m := range models {
		for _, name := range m.Match.named() {
			if undated := dated.ReplaceAllString(name, ""); m.ID != id && undated != name && slices.Contains(names, undated) {
				return name
			}
		}
	}
	return ""
}

// row is a row of the table.
type row struct {
	providers, models    []string
	source, day          string
	from, until          string
	input, output        *float64
	cachedInput, written *float64
	long                 *row
	above                float64
	search               *float64
	searchOnce           bool
}

// rows returns the model's rows that are valid on day or later, or an error that says why there can be none.
func (m model) rows(day string) (rows []row, err error) {
	switch {
	case m.Removed:
		return nil, errors.New("the source lists it as discontinued")
	case m.Checked == "":
		return nil, errors.New("the source does not say when its price was checked")
	case strings.Contains(m.Comments, "OpenRouter"):
		return nil, errors.New("the price is one of OpenRouter, not of the vendor")
	}

	periods, listed := m.Prices.([]any)
	if !listed {
		periods = []any{map[string]any{"prices": m.Prices}}
	}
	for _, period := range periods {
		fields, _ := period.(map[string]any)
		from := ""
		if constraint, ok := fields["constraint"].(map[string]any); ok {
			from, _ = constraint["start_date"].(string)
			if from == "" || len(constraint) != 1 {
				return nil, errors.New("its price depends on more than the day, such as the time of day")
			}
		}
		if len(rows) > 0 {
			next, err := time.Parse(time.DateOnly, from)
			if err != nil || from <= rows[len(rows)-1].from {
				return nil, errors.New("its prices do not follow each other")
			}
			rows[len(rows)-1].until = next.AddDate(0, 0, -1).Format(time.DateOnly)
		}
		figures, _ := fields["prices"].(map[string]any)
		r, err := rowOf(figures)
		if err != nil {
			return nil, err
		}
		r.from, r.day = from, m.Checked
		rows = append(rows, *r)
	}

	if len(rows) == 0 {
		return nil, errors.New("it has no price")
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.until != "" && r.until < day })
	if rows[0].from <= day {
		rows[0].from = ""
	}
	return rows, nil
}

// rowOf returns a row with the prices in figures.
func rowOf(figures map[string]any) (*row, error) {
	r, long := row{}, row{}
	for _, unit := range []struct {
		name       string
		base, tier **float64
	}{
		{"input_mtok", &r.input, &long.input},
		{"output_mtok", &r.output, &long.output},
		{"cache_read_mtok", &r.cachedInput, &long.cachedInput},
		{"cache_write_mtok", &r.written, &long.written},
		{"web_searches_kcount", &r.search, &long.search},
	} {
		figure, ok := figures[unit.name]
		if !ok {
			continue
		}
		base, tier, above, err := tiered(figure)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", unit.name, err)
		}
		if above > 0 && r.above > 0 && above != r.above || above > 0 && unit.base == &r.search {
			return nil, fmt.Errorf("%s: its tiers are not those of the other prices", unit.name)
		}
		*unit.base, *unit.tier, r.above = &base, &tier, max(above, r.above)
	}

	for _, unit := range slices.Sorted(maps.Keys(figures)) {
		switch unit {
		case "input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "web_searches_kcount":
		case "cache_write_1h_mtok": // never asked for
		default:
			return nil, fmt.Errorf("the table has no %s", unit)
		}
	}

	if r.input == nil || r.output == nil || *r.input <= 0 || *r.output <= 0 {
		return nil, errors.New("it has no price of both input and output")
	}
	if r.above > 0 {
		r.long = &long
	}
	return &r, nil
}

// tiered returns a price, and the price of calls with more input than above tokens; above 0: there is only one price.
func tiered(figure any) (base, tier, above float64, err error) {
	fields, ok := figure.(map[string]any)
	if !ok {
		base, ok = number(figure)
		if !ok {
			err = fmt.Errorf("%v is not a price", figure)
		}
		return base, base, 0, err
	}
	tiers, _ := fields["tiers"].([]any)
	base, ok = number(fields["base"])
	if len(tiers) != 1 || !ok {
		return 0, 0, 0, fmt.Errorf("%d tiers", len(tiers))
	}
	only, _ := tiers[0].(map[string]any)
	tier, priced := number(only["price"])
	above, placed := number(only["start"])
	if !priced || !placed || above <= 0 {
		return 0, 0, 0, fmt.Errorf("%v is not a tier", tiers[0])
	}
	return base, tier, above, nil
}

func number(figure any) (float64, bool) {
	f, err := strconv.ParseFloat(fmt.Sprint(figure), 64)
	return f, err == nil
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// String returns the row as a line of the table.
func (r row) String() string {
	var line strings.Builder
	fmt.Fprintf(
		&line, "  - {providers: [%s], models: [%s], source: %s, on: %q, ", strings.Join(r.providers, ", "),
		strings.Join(r.models, ", "), r.source, r.day,
	)
	if r.from != "" {
		fmt.Fprintf(&line, "from: %q, ", r.from)
	}
	if r.until != "" {
		fmt.Fprintf(&line, "until: %q, ", r.until)
	}
	line.WriteString(r.rates())
	if r.long != nil {
		fmt.Fprintf(&line, ", long: {above: %s, %s}", plain(r.above), r.long.rates())
	}
	fmt.Fprintf(&line, ", search: %s", plain(*r.search))
	if r.searchOnce {
		line.WriteString(", search_once: true")
	}
	return line.String() + "}\n"
}

func (r row) rates() string {
	line := "input: " + plain(*r.input)
	if r.cachedInput != nil {
		line += ", cached_input: " + plain(*r.cachedInput)
	}
	if r.written != nil {
		line += ", cache_write: " + plain(*r.written)
	}
	return line + ", output: " + plain(*r.output)
}
