"""Rows of the tables in an output folder.

Written by go test ./internal/report -run TestPythonRows -update-formats from the columns that the program writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A row of answers."""

    # the run that answered; empty where the text was given
    id: str = ""
    # the document, or the own id of the listed run or prompt
    doc_id: str = ""
    # the item that it answers
    item: str = ""
    # the item's question
    question: str = ""
    # whose text it is; of a listed run or prompt, the model asked
    candidate: str = ""
    # `provider:model` asked; empty where the text was given
    model: str = ""
    # `provider:model` that answered, which may be a fallback
    answered_by: str = ""
    # `given`, `succeeded` or `failed`
    status: str = ""
    # of the [failure](errors.md)
    class_: str = ""
    # from 1; above it only where a prompt has several answers; missing without an answer
    turn: int | None = None
    # the text
    answer: str = ""
    # `truncated` where the model could write no more
    finish: str = ""
    # when the run ended
    timestamp: datetime | None = None
    # columns that a newer program wrote, as texts
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A row of scores."""

    # the run; empty of a check
    id: str = ""
    # the item
    item: str = ""
    # whose document it is
    candidate: str = ""
    # the document
    doc_id: str = ""
    # the judge, or the agent of a panel; `check` of a check
    judge: str = ""
    # the criterion, the text of one of a rubric, the dimension of a panel, or the check
    criterion: str = ""
    # on the scale of the evaluation; of a check, or of a criterion of a rubric, 1 if the text passes, otherwise 0
    score: float | None = None
    # the judge's, the agent's argument, or why the text does not pass
    reason: str = ""
    # `provider:model` asked; empty of a check
    model: str = ""
    # `provider:model` that answered, which may be a fallback
    answered_by: str = ""
    # from 1; missing of a panel or a check, which have no trials
    trial: int | None = None
    # when the run ended; missing of a check
    timestamp: datetime | None = None
    # what the criterion of a rubric is worth; missing without rubrics
    points: float | None = None
    # columns that a newer program wrote, as texts
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A row of verdicts."""

    # the run; empty of a person's vote
    id: str = ""
    # the item
    item: str = ""
    # whose text was shown first
    candidate_1: str = ""
    # whose text was shown second
    candidate_2: str = ""
    # the document shown first; of a vote, the one whose id sorts first
    doc_id_1: str = ""
    # the other document
    doc_id_2: str = ""
    # `first`, `second` or `tie`: which text is better
    result: str = ""
    # the candidate whose text is better; empty: a tie
    winner: str = ""
    # `judge`, or `person` of a vote
    by: str = ""
    # the judge, or the annotator
    judge: str = ""
    # `provider:model` asked; empty of a person
    model: str = ""
    # `provider:model` that answered; empty: no model was asked, because the texts are identical or one fails a gate
    answered_by: str = ""
    # from 1; missing of a person
    trial: int | None = None
    # `forward`: the document shown first sorts first; `reverse`; empty of a person
    order: str = ""
    # the judge's; `identical` or `gate: CHECK`: no model was asked
    reason: str = ""
    # when the run ended; missing of a person
    timestamp: datetime | None = None
    # columns that a newer program wrote, as texts
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A row of calls."""

    # the run that it was made for
    id: str = ""
    # its own id
    call: str = ""
    # what it asked for: `verdict`, `answer`, `grounded`, `json` or `repair`
    stage: str = ""
    # `provider:model` called
    model: str = ""
    # of the run, from 1
    attempt: int | None = None
    # taken from an identical earlier call: nothing was sent or charged
    cached: bool | None = None
    # of HTTP; missing without a response
    status: int | None = None
    # of the [failure](errors.md); empty: it was answered
    class_: str = ""
    # in the provider's words
    error: str = ""
    # missing where the provider reported none
    input_tokens: int | None = None
    # likewise
    output_tokens: int | None = None
    # likewise: input tokens that the provider read from its cache
    cached_tokens: int | None = None
    # likewise: input tokens that the provider wrote to its cache
    cache_write_tokens: int | None = None
    # likewise: output tokens spent on reasoning
    reasoning_tokens: int | None = None
    # missing where it is unknown
    cost_usd: float | None = None
    # what the provider's cache saved of the cost; below 0 where writing to it cost more, missing where unknown
    saved_usd: float | None = None
    # seconds from `asked_at` to `started_at`
    wait_s: float | None = None
    # seconds from `started_at` to `ended_at`
    latency_s: float | None = None
    # why the answer ended
    finish: str = ""
    # the worker that made it
    worker: str = ""
    # the account where it was made, if the provider has several
    account: str = ""
    # when it asked to be admitted
    asked_at: datetime | None = None
    # when the request was sent; missing of a cached one
    started_at: datetime | None = None
    # when it ended
    ended_at: datetime | None = None
    # columns that a newer program wrote, as texts
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A row of ranking."""

    # the candidate
    candidate: str = ""
    # in its group, by strength, or by mean score where no pairs are compared; missing: not ranked
    rank: int | None = None
    # the best rank at 95 %, for all candidates at once
    rank_low: int | None = None
    # the worst rank, likewise
    rank_high: int | None = None
    # in log-odds; 0 is the mean of the group
    ability: float | None = None
    # standard error of `ability`
    se: float | None = None
    # lower limit of `ability` at 95 %
    low: float | None = None
    # upper limit
    high: float | None = None
    # verdicts for it
    wins: int | None = None
    # verdicts against it
    losses: int | None = None
    # verdicts for neither
    ties: int | None = None
    # share of verdicts for it; a tie is half a win; missing without any
    win_rate: float | None = None
    # from 1: only candidates of one group were compared with each other, and each group has its own ranks
    group: int | None = None
    # standard error of the fit, which treats all verdicts as independent
    model_se: float | None = None
    # probability that it is better than the next; missing where position and candidates cannot be told apart, and with verdicts on one item or pair
    beats_next: float | None = None
    # the best rank at 95 %, for this candidate alone
    marginal_rank_low: int | None = None
    # the worst rank, likewise
    marginal_rank_high: int | None = None
    # probability that it is the best of its group; missing as `beats_next`
    p_best: float | None = None
    # `ability` as 1000 + 400/ln 10 · `ability`
    elo: float | None = None
    # lower limit of `elo` at 95 %
    elo_low: float | None = None
    # upper limit
    elo_high: float | None = None
    # lower limit of `win_rate` at 95 %
    win_rate_low: float | None = None
    # upper limit
    win_rate_high: float | None = None
    # `ability` less that of the next in the group; without pairs, the mean difference of their scores by the same judges on the same items
    lead: float | None = None
    # lower limit of `lead` at 95 %
    lead_low: float | None = None
    # upper limit
    lead_high: float | None = None
    # mean of its scores on all criteria; missing without scores
    mean_score: float | None = None
    # lower limit of `mean_score` at 95 %; missing with one item
    mean_score_low: float | None = None
    # upper limit
    mean_score_high: float | None = None
    # its scores that count
    scores: int | None = None
    # from 1 in its group: it is worse than a candidate of the tier above, all at once at 95 %
    tier: int | None = None
    # 1: one of the candidates that hold the best of its group at 95 %; 0: not one of them
    may_be_best: int | None = None
    # mean probability with which judges prefer it; a tie is half a win; missing without `soft`
    weighted_win_rate: float | None = None
    # lower limit of `weighted_win_rate` at 95 %
    weighted_win_rate_low: float | None = None
    # upper limit
    weighted_win_rate_high: float | None = None
    # columns that a newer program wrote, as texts
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Item:
    """A row of items."""

    # the item
    item: str = ""
    # separated by `; `
    categories: str = ""
    # of texts, with verdicts of judges
    pairs: int | None = None
    # pairs on which judges disagree
    disagree: int | None = None
    # pairs on which a judge follows the order of the texts
    flipped: int | None = None
    # pairs on which judges and people differ
    unlike_people: int | None = None
    # pairs with any of these
    contested: int | None = None
    # of `pairs`
    contested_share: float | None = None
    # standard deviation of the candidates' win rates, or mean scores
    spread: float | None = None
    # of all scores on it: the lower, the harder
    mean_score: float | None = None
    # columns that a newer program wrote, as texts
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A row of effects."""

    # `prompt` or `model`: a main effect; `interaction`: of a candidate
    of: str = ""
    # the prompt; empty in a row of a model
    prompt: str = ""
    # the model; empty in a row of a prompt
    model: str = ""
    # the prompt together with the model, in a row of an interaction
    candidate: str = ""
    # among the prompts, or the models
    rank: int | None = None
    # the best rank at 95 %, for all prompts and models at once
    rank_low: int | None = None
    # the worst rank, likewise
    rank_high: int | None = None
    # what the candidate's prompt and model add up to
    expected: float | None = None
    # of a prompt or model, the mean of its candidates; of a candidate, how far it is above `expected`. In log-odds, or in scores where no pairs are compared
    effect: float | None = None
    # standard error of `effect`
    se: float | None = None
    # lower limit of `effect` at 95 %; those of interactions hold for all candidates at once
    low: float | None = None
    # upper limit
    high: float | None = None
    # of the hypothesis that no prompt suits a model better than others, in each row of an interaction
    p: float | None = None
    # columns that a newer program wrote, as texts
    extra: dict[str, str] = field(default_factory=dict)
