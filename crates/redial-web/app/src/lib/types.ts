// Made from the types of the server by the test `typescript`: do not edit.

export type ActiveFault = { kind: string, left_ms: number | null, };

export type Amplification = { 
/** Attempts of a call in the worst case. */ multiplier: number, 
/** Requests a second in the worst case. */ amplified: number, 
/** The highest multiple of the usual load in a simulated outage of 10 s. */ simulated: number, 
/** The same with a budget of a tenth of the calls. */ with_budget: number, };

export type Answer = { 
/** One sentence that says what is seen. */ sentence: string, 
/** The command that computes the same figures. */ command: string, 
/** The time between two points. */ point_ms: number, 
/** Requests a second that the backend can serve; `None` if it has no limit. */ capacity: number | null, 
/** Calls a second without faults; `None` if all callers begin at once. */ steady: number | null, bands: Array<Band>, policies: Array<PolicyAnswer>, 
/** What is not as the sliders say. */ notes: Array<string>, wall_ms: number, };

export type Ask = { visitor: string, story: string, sliders: { [key in string]: Position }, 
/** Those of the story, if there are none. */ policies: Array<PolicyChoice>, seed: number, quality: Quality, };

export type BackoffTable = { rows: Array<WaitRow>, 
/** The mean of all waits together, and without jitter. */ expected_ms: number, fixed_ms: number, };

export type Band = { from_ms: number, to_ms: number, label: string, };

export type BudgetFigures = { 
/** Retries for each call. */ ratio: number, 
/** Retries as a share of all requests. */ share: number, 
/** The line of a policy file. */ toml: string, };

export type Checked = { remarks: Array<Remark>, };

export type Configured = { 
/** Whether they are those of a file, and not the presets. */ is_file: boolean, policies: Array<ConfiguredPolicy>, 
/** The setting as positions of the playground's sliders. */ sliders: { [key in string]: number }, };

export type ConfiguredPolicy = { name: string, 
/** The policy as a file. */ toml: string, 
/** What it does, in one line. */ about: string, 
/** The upstreams and routes that use it. */ used_by: Array<string>, remarks: Array<Remark>, };

export type Curves = { calls: Array<number>, attempts: Array<number>, served: Array<number>, succeeded: Array<number>, };

export type DemoDescription = { 
/** The names of its two upstreams. */ naive: string, redial: string, 
/** Requests a second that a backend can serve. */ capacity: number, faults: Array<DemoFault>, };

export type DemoFault = { 
/** Its name. */ kind: string, 
/** How long it lasts, unless told otherwise. */ seconds: number, 
/** What happens, in words. */ meaning: string, };

export type Edited = { id: number, };

export type ExerciseDescription = { questions: Array<QuizQuestion>, task: string, start: string, rubric: Array<RubricLine>, };

export type Extremes = { min: number, max: number, };

export type Figures = { calls: number, attempts: number, amplification: number, success: number, peak_ratio: number, 
/** The most attempts a second; where all callers begin at once, the most retries. */ peak: number, p99_ms: number | null, recover_ms: number | null, 
/** Whether most runs collapsed: at their end, at most half as many calls succeed as usual. */ collapsed: boolean, runs: number, 
/** The share of the runs that collapsed, and its 95% confidence interval. */ collapse: [number, number, number], 
/** The share of the calls that succeed before the trouble, and at the end of the run; `None` if no call begins then. */ success_before: number | null, success_at_end: number | null, };

export type GroupRow = { reason: string | null, outcome: string | null, jobs: number, oldest: number, newest: number, 
/** The number of its first job. */ first: number, };

export type Groups = { groups: Array<GroupRow>, 
/** How many dead letters are in no group. */ others: number, 
/** The most dead letters that are grouped. */ most: number, };

export type HeaderRow = { name: string, 
/** `None` if it is secret. */ value: string | null, };

export type Hello = { version: string, mode: string, 
/** The pages that this server has. */ pages: Array<string>, 
/** Thresholds of the storm detector, by level. */ lines: { [key in string]: number }, times: SampleTimes, demo: DemoDescription | null, };

export type History<T> = { step_ms: number, samples: Array<T>, };

export type HistoryStep = { 
/** When it ended, in Unix milliseconds. */ at: number, upstreams: Array<UpstreamStep>, };

export type JobList = { now: number, jobs: Array<JobRow>, 
/** The number to continue after, if there are more. */ next: number | null, };

export type JobRow = { id: number, queue: string, state: string, key: string | null, priority: number, policy: string | null, attempts: number, 
/** In Unix milliseconds, as all times. */ created: number, due: number, begun: number | null, 
/** Why it was given up. */ reason: string | null, last: TriedRow | null, 
/** What a delivery is about: method and address. */ about: string | null, payload: ShownPayload, };

export type Judged = { is_right: boolean, right: number, explanation: string, command: string, };

export type KnownPolicy = { name: string, kind: string, about: string, };

export type MapAnswer = { 
/** The load. */ x: MapAxis, 
/** The length of the trouble. */ y: MapAxis, policies: Array<PolicyMap>, 
/** The command that computes the same figures. */ command: string, };

export type MapAxis = { path: string, values: Array<string>, };

export type MapCell = { 
/** The share of the runs that collapsed. */ collapse: number, success: number, amplification: number, };

export type Overview = { 
/** When they were looked at, in Unix milliseconds of the store. */ now: number, queues: Array<QueueRow>, 
/** How many more there are. */ more: number, };

export type Pause = { queue: string, paused: boolean, };

export type PlaygroundDescription = { stories: Array<Story>, tour: Array<TourStep>, policies: Array<KnownPolicy>, most_policies: number, 
/** A policy to start from. */ own: string, };

export type PolicyAnswer = { name: string, 
/** What it does, in one line. */ about: string, 
/** `None` if the policy cannot be read. */ result: PolicyResult | null, 
/** The policy as a file. */ toml: string | null, 
/** What `redial check` finds in the visitor's own policy. */ remarks: Array<Remark>, };

export type PolicyChoice = { 
/** A policy of the story, `no-retry`, a preset or `peer:NAME`; with a text, any name. */ name: string, 
/** The visitor's own policy, as a file of one policy. */ toml?: string, };

export type PolicyMap = { name: string, 
/** Row by row; `None` where the map was cancelled before. */ cells: Array<MapCell | null>, };

export type PolicyResult = { figures: Figures, curves: Curves, tone: Tone, 
/** How it was computed: "cohorts · 38 ms". */ caption: string, notes: Array<string>, };

export type PolicyScore = { policy: string, met: number, of: number, grade: string, points: Array<ScorePoint>, };

export type Position = number | string;

export type Preview = { count: number, jobs: Array<JobRow>, };

export type Purged = { purged: number, };

export type Quality = "coarse" | "full";

export type QueueRow = { name: string, paused: boolean, rate: string | null, per_key: number, due: number, later: number, held: number, running: number, dead: number, oldest_ms: number, enqueued: number, done: number, retried: number, died: number, lost: number, dropped: number, rates: Array<[number, number, number, number, number]>, };

export type QuizQuestion = { text: string, options: Array<string>, };

export type Redriven = { redriven: number, last_starts_in_ms: number, };

export type Remark = { 
/** The rule; `None` for a problem. */ rule: string | null, severity: string, message: string, help: string | null, line: number | null, column: number | null, end_column: number | null, };

export type RubricLine = { name: string, about: string, };

export type RunResult = Answer | MapAnswer;

export type RunStarted = { id: number, };

export type RunStatus = { state: string, 
/** From 0 to 1. */ progress: number, result: RunResult | null, 
/** Why there is no result; absent unless it failed. */ error?: string, };

export type SampleTimes = { 
/** Samples that are further apart have a gap between them. */ gap_ms: number, 
/** How many samples are kept second by second. */ kept: number, };

export type ScorePoint = { name: string, about: string, met: boolean, why: string, line: number, };

export type Scored = { scores: Array<PolicyScore>, remarks: Array<Remark>, };

export type SentSample = { state?: SentState, 
/** Ascends, also over a restart of the server. */ id: number, 
/** When it ended, in Unix milliseconds. */ at: number, 
/** The milliseconds that its counts cover: more than a second if the machine was busy. */ span_ms: number, 
/** The upstreams that have had calls. */ upstreams: Array<UpstreamSample>, };

export type SentState = { 
/** The fault of the demo. */ fault: ActiveFault | null, 
/** The answer in one sentence. */ verdict: StormVerdict, 
/** The worst first. */ upstreams: Array<UpstreamState>, 
/** What ended without success lately, the latest first. */ stops: Array<Stopped>, };

export type ShownPayload = { bytes: number, 
/** Whether `text` or `hex` is not all of it. */ cut: boolean, text?: string, hex?: string, };

export type Slider = { name: string, label: string, } & ({ "kind": "number", least: number, most: number, default: number, unit: string, log: boolean, whole: boolean, } | { "kind": "choice", options: Array<string>, default: string, });

export type Stopped = { 
/** When the last of them ended, in Unix milliseconds. */ at: number, 
/** The upstream. */ upstream: string, 
/** The name of the reason. */ reason: string, 
/** The reason in words. */ meaning: string, 
/** How many. */ count: number, };

export type StormVerdict = { 
/** The storm level of the worst upstream. */ level: string, 
/** The beginning of the sentence: `Calm · payments 1.03×`, `Storm: payments 3.2×` or `No traffic yet`. */ text: string, 
/** Since when, in Unix milliseconds; absent when it is calm. */ since: number | null, 
/** The failure that most retries repeat; absent when it is calm. */ cause: string | null, 
/** Attempts per fresh call of the worst upstream; absent without traffic. */ multiplier: number | null, 
/** Attempts per call of the worst upstream: what our own retries add. */ amplification: number | null, 
/** The worst upstream; absent without traffic. */ upstream: string | null, 
/** Whether most attempts of the last seconds failed, at all upstreams together. */ is_failing: boolean, };

export type Story = { 
/** Its name in addresses. */ name: string, title: string, 
/** What happens, in two sentences. */ text: string, 
/** The article that tells it. */ source: string, 
/** The built-in scenario of the simulator. */ scenario: string, 
/** The policy that the sliders change. */ shaped: string, 
/** The policies that are compared at first. */ policies: Array<string>, sliders: Array<Slider>, };

export type Tone = "good" | "warn" | "bad";

export type TourStep = { title: string, text: string, 
/** The sliders that are not where the story puts them. */ sliders: Array<[string, number]>, };

export type TriedRow = { attempt: number, ended: number, took_ms: number, outcome: string, };

export type UpstreamSample = { 
/** Its name. */ name: string, 
/** Calls that began. */ calls: number, 
/** Attempts that were sent. */ attempts: number, 
/** Calls that succeeded. */ succeeded: number, 
/** Calls that ended without success. */ stopped: number, 
/** Half of the attempts took at most this long, failed ones included; absent without attempts. */ p50_ms?: number, 
/** 99 of 100 took at most this long. */ p99_ms?: number, 
/** Attempts per fresh call over the detector's window; absent without calls in it. */ multiplier: number | null, 
/** Attempts per call over the same window: what our own retries add. */ amplification: number | null, 
/** The storm level. */ level: string, };

export type UpstreamState = { 
/** Its name. */ name: string, 
/** Its storm level. */ level: string, 
/** Attempts per fresh call; absent without calls in the detector's window. */ multiplier: number | null, 
/** Attempts per call. */ amplification: number | null, 
/** Fresh calls relative to the window before. */ surge: number | null, 
/** When the level left calm, in Unix milliseconds. */ since: number | null, 
/** The failure that was most frequent in the last minute. */ reason: string | null, 
/** How often it was. */ failures: number, 
/** All attempts of that minute. */ attempts: number, 
/** Retries that its budgets would grant now; absent without a budget, and for a queue. */ budget_left: number | null, 
/** The worst state of its breakers; absent without a breaker, and for a queue. */ breaker: string | null, 
/** Attempts in flight. */ in_flight: number, 
/** Parked calls. */ parked: number, 
/** Whether it is a queue. Its workers have a budget and a breaker for each destination, and a sum of them has no meaning. */ is_queue: boolean, 
/** How long the oldest due job has waited; absent if it is not a queue, or the store failed. */ oldest_due_ms: number | null, 
/** What to do, if there is something to do. */ action: string | null, 
/** Whether most attempts of the last seconds failed. */ is_failing: boolean, };

export type UpstreamStep = { name: string, calls: number, attempts: number, succeeded: number, stopped: number, calls_per_s: Extremes, attempts_per_s: Extremes, multiplier?: Extremes, p50_ms?: Extremes, p99_ms?: Extremes, };

export type WaitRow = { retry: number, uncapped_ms: number, ceiling_ms: number, expected_ms: number, };

export type WholeJob = { now: number, history: Array<TriedRow>, headers: Array<HeaderRow>, idempotency_key: string, id: number, queue: string, state: string, key: string | null, priority: number, policy: string | null, attempts: number, 
/** In Unix milliseconds, as all times. */ created: number, due: number, begun: number | null, 
/** Why it was given up. */ reason: string | null, last: TriedRow | null, 
/** What a delivery is about: method and address. */ about: string | null, payload: ShownPayload, };
