package simulator

import (
	"net/http"
	"time"
)

// keepJobs is how long a job is kept after its end.
const keepJobs = 10 * time.Minute

// job is a call that runs without its client. It is in flight until it ends.
type job struct {
	call  *call
	lasts time.Duration
	end   *time.Timer // ends the job; nil: it never ends by itself
	ended time.Time   // zero: still running
	// cancelled jobs have no answer.
	cancelled bool
}

// jobs are those that clients can ask for.
type jobs struct {
	byID  map[string]*job
	ended []*job // in the order in which they ended
}

// isJob reports whether the call runs as a background job. Calls that fail before there is a
// response are answered at once.
func (c *call) isJob() bool {
	return c.req.background && (c.plan.fate != failing || c.plan.problem.failure == FailedIn200)
}

// submit begins a job and answers with its id.
func (s *Simulator) submit(w http.ResponseWriter, r *http.Request, c *call) {
	j := &job{call: c, lasts: c.behaviour.Latency.at(c.draw("latency"))}
	s.mu.Lock()
	s.forgetJobs(time.Now())
	s.jobs.byID[c.id("resp_")] = j
	s.all.counts.submitted++
	s.models[c.req.model].counts.submitted++
	if c.plan.fate != hanging {
		j.end = time.AfterFunc(j.lasts, func() {
			outcome := answered
			if c.plan.fate == failing {
				outcome = failed
			}
			s.endJob(j, outcome)
		})
	}
	s.mu.Unlock()
	answer := reply{status: http.StatusOK, body: []byte(encode(responses{}.object(c, "queued")))}
	if c.plan.fate == halved {
		_ = answer.begin(r.Context(), w, len(answer.body)/2)
		panic(http.ErrAbortHandler) // the job runs, but its client does not know its ID
	}
	answer.send(w)
}

func (s *Simulator) endJob(j *job, outcome outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !j.ended.IsZero() {
		return
	}
	now := time.Now()
	j.ended = now
	j.cancelled = outcome == abandoned
	s.jobs.ended = append(s.jobs.ended, j)
	s.end(now, j.call, outcome)
}

// forgetJobs removes jobs that ended longer than keepJobs ago.
func (s *Simulator) forgetJobs(now time.Time) {
	for len(s.jobs.ended) > 0 && now.Sub(s.jobs.ended[0].ended) > keepJobs {
		delete(s.jobs.byID, s.jobs.ended[0].call.id("resp_"))
		s.jobs.ended = s.jobs.ended[1:]
	}
}

// stopJobs stops the timers of jobs, so that no further job ends.
func (s *Simulator) stopJobs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs.byID {
		if j.end != nil {
			j.end.Stop()
		}
	}
}

// poll answers with a job's state.
func (s *Simulator) poll(w http.ResponseWriter, r *http.Request) {
	if j := s.jobOf(w, r); j != nil {
		s.tell(w, j)
	}
}

// cancel ends a job, unless it has ended.
func (s *Simulator) cancel(w http.ResponseWriter, r *http.Request) {
	if j := s.jobOf(w, r); j != nil {
		s.endJob(j, abandoned)
		s.tell(w, j)
	}
}

// jobOf returns the job that a request names. If it is nil, jobOf has answered with an error.
func (s *Simulator) jobOf(w http.ResponseWriter, r *http.Request) *job {
	d, stray, id := responses{}, &call{req: &request{}}, r.PathValue("id")
	d.head(w.Header(), stray)
	if wrong := s.checkKey(d, r.Header); wrong != "" {
		fail(d, w.Header(), stray, problem{failure: wrong}).send(w)
		return nil
	}
	s.mu.Lock()
	j := s.jobs.byID[id]
	if j != nil {
		s.all.counts.polled++
		s.models[j.call.req.model].counts.polled++
	}
	s.mu.Unlock()
	if j == nil || j.call.draw("lose") < j.call.behaviour.LoseRate {
		fail(
			d, w.Header(), stray,
			problem{failure: BadRequest, status: http.StatusNotFound, message: "Response with id '" + id + "' not found."},
		).send(w)
		return nil
	}
	return j
}

// tell answers with a job's state.
func (s *Simulator) tell(w http.ResponseWriter, j *job) {
	s.mu.Lock()
	status := j.status(time.Now())
	s.mu.Unlock()
	reply{status: http.StatusOK, body: []byte(encode(responses{}.object(j.call, status)))}.send(w)
}

// status returns a job's status. It is "queued" for a quarter of its time.
func (j *job) status(now time.Time) string {
	switch {
	case j.cancelled:
		return "cancelled"
	case !j.ended.IsZero():
		return j.call.plan.status()
	case now.Sub(j.call.admitted) < j.lasts/4:
		return "queued"
	}
	return "in_progress"
}
