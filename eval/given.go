package eval

// Given describes an evaluation whose verdicts were given elsewhere and read from files. Nothing of it can be asked:
// its runs are the verdicts in the results store.
type Given struct {
	Hash string `json:"hash"` // of all verdicts: others on the same texts are another evaluation
	// PairRuns is at least the number of verdicts on any pair. Run i is about pair i/PairRuns; not every index has a
	// run.
	PairRuns int `json:"pair_runs"`
	// Separate means that the files do not say which verdicts are on the same question. Each is then taken as a
	// verdict on texts of its own, and a document stands for all texts of its candidate.
	Separate bool `json:"separate,omitempty"`
	// Repeated is how many rows are the same as an earlier one and name no question. Nothing tells such rows from copies, so
	// each counts as one more verdict on the texts of the earlier one.
	Repeated int `json:"repeated_rows,omitempty"`
	// Pooled is how many judges with few verdicts each are one judge, the last.
	Pooled int `json:"pooled_judges,omitempty"`
	// People means that all verdicts are votes of people.
	People bool `json:"people,omitempty"`
	// Column is set if the order of the texts is not known and candidates keep to one of the two columns of the files.
	// A preference for the text shown first could then look like a lead.
	Column *GivenColumn `json:"column,omitempty"`
	// Files are the files that were read, in order. They are not part of the evaluation's identity.
	Files []GivenFile `json:"files,omitempty"`
}

// GivenFile says what was read from one file.
type GivenFile struct {
	Name     string       `json:"name"`
	Format   string       `json:"format"`
	Rows     int          `json:"rows"`
	Verdicts int          `json:"verdicts"`
	Skipped  []GivenCount `json:"skipped,omitempty"` // what gave no verdict, by reason
	Read     []GivenCount `json:"read,omitempty"`    // verdicts whose value was simplified, by how
}

// GivenColumn says how often the candidate that keeps most to one column is in the first one.
type GivenColumn struct {
	Candidate string `json:"candidate"`
	First     int    `json:"first"`
	Rows      int    `json:"rows"`
}

// GivenCount is how many things of a file were skipped or simplified.
type GivenCount struct {
	Count int    `json:"count"`
	What  string `json:"what"`
}
