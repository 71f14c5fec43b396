import { timestamp } from "../../base/clock.ts";
import { AssistantError } from "../assistant-error.ts";
import { type Caller, mayUseNetwork, sandboxedApp } from "../caller.ts";
import type { DataClass, Egress } from "../data-class.ts";
import { formatRemoteModelName } from "../inference/routing/port.ts";
import { escapeLine } from "./agent-pass/escape-text.ts";
import type { PassResult } from "./agent-pass/port.ts";
import { findLocalModel } from "./default-local-model.ts";
import { defaultOverlayLimits, type OverlayDependencies } from "./overlay-dependencies.ts";
import type { OverlayQuery } from "./overlay-query.ts";
import type { ConfirmationRequest, SourceMeta, TurnMeta } from "./port.ts";
import { selectRelevantHits } from "./relevant-hits.ts";
import { getDataClasses } from "./request-data-classes.ts";
import { streamAnswer } from "./stream-answer.ts";
import { buildTurnMessages, formatContext } from "./turn-messages.ts";
import { buildTurnMeta, noSearch, type SearchOutcome, toSourceMeta } from "./turn-meta.ts";
import { resolveTurnRoute, type TurnRoute } from "./turn-route.ts";

/** The maximum number of passages in the prompt. A small model can read this many together with a question. */
const HITS_MAX = 5;

/** The longest query that Context1 accepts. */
const SEARCH_QUERY_BYTES_MAX = 4_096;

/** Number of characters of the prompt that are shown when the user is asked for consent. */
const PROMPT_CHARS_SHOWN = 400;

/**
 * The note of an answer if the local model could not choose tools, because the model does not fit into memory or the
 * tools do not fit into the model's context. The lack of tools is known only after the signal Started was sent.
 */
const NO_TOOLS = "answered without tools: the local model could not choose any";

/** The recipient of a turn's events and questions. */
export interface TurnCallbacks {
  started(meta: TurnMeta): void;
  /** Receives a part of the answer: non-empty text of whole code points. */
  token(text: string): void;
  /**
   * Asks the user to allow a call or a transfer of data. Resolves to the caller that approved the request. Rejects with
   * DeniedError, or with the signal's reason if the question is withdrawn.
   */
  ask(request: ConfirmationRequest, signal: AbortSignal): Promise<Caller>;
  /** Resolves when the turn may continue after a question that the user declined. */
  resume(): Promise<void>;
}

/**
 * Runs one turn. Its steps are: search; ask for consent to send what was found; let the local model call tools; ask
 * for consent to send their results; answer. The user is asked as early as possible, so that no step runs in vain.
 * Rejects with the error that ended the turn.
 */
export class QueryTurn {
  readonly #dependencies: OverlayDependencies;
  readonly #query: OverlayQuery;
  readonly #callbacks: TurnCallbacks;
  readonly #route: TurnRoute;
  readonly #allowedOnce = new Set<DataClass>();
  /**
   * The address that the user consented to for this turn. It is kept, because the provider with that name may get
   * another address in the meantime.
   */
  #allowedAddress: string | undefined;
  #sources: readonly SourceMeta[] = [];

  constructor(options: OverlayDependencies, query: OverlayQuery, callbacks: TurnCallbacks) {
    this.#dependencies = options;
    this.#query = query;
    this.#callbacks = callbacks;
    this.#route = resolveTurnRoute(options.routes, query.request.modelHint);
  }

  async run(): Promise<void> {
    const { signal } = this.#query;
    if (this.#route.kind === "remote") this.#checkProvider();
    const [found, hasTools] = await Promise.all([this.#search(), this.#hasTools()]);
    signal.throwIfAborted();
    this.#sources = found.hits.map(toSourceMeta);
    this.#callbacks.started(buildTurnMeta(this.#query.request, this.#route.kind, found, hasTools));

    const provenance = [...new Set(found.hits.map((hit) => hit.provenance))];
    if (this.#route.kind === "remote")
      await this.#requestConsent(getDataClasses(provenance, false));
    const context = formatContext(found.hits);
    const results = hasTools === true ? await this.#useTools(context, provenance) : [];
    // A denied call never reached its app, so it has no result that a request could contain.
    const hasToolResults = results.some(({ call }) => call.status !== "denied");
    const classes = getDataClasses(provenance, hasToolResults);
    if (this.#route.kind === "remote") await this.#requestConsent(classes);
    await this.#answer(context, results, classes);
  }

  /** Checks that the provider exists, before the user is asked for consent. */
  #checkProvider(): void {
    const { remote } = this.#route;
    if (remote && this.#dependencies.remote.addressOf(remote.provider) !== undefined) return;
    throw new AssistantError(
      "model_not_found",
      remote
        ? `there is no provider ${remote.provider}: add it, or choose another model`
        : "the model's name begins with remote: and must be remote:<provider>:<model>",
    );
  }

  async #search(): Promise<SearchOutcome> {
    const { request, caller, signal } = this.#query;
    if (!request.myStuff) return noSearch;
    const search = {
      query: truncateSearchQuery(request.prompt),
      limit: HITS_MAX,
      isHybrid: true,
      scopes: request.scopes,
    };
    try {
      const hits = await this.#dependencies.context.search(search, caller, signal);
      return { hits: selectRelevantHits(hits), hasSearched: true };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof AssistantError && isFatalSearchError(error)) throw error;
      this.#dependencies.logger.warn(
        { err: error, query: this.#query.id },
        "a query continues without context",
      );
      return noSearch;
    }
  }

  /**
   * Returns true if a local model can choose tools, or if the local models cannot be determined; false if there is no
   * local model; undefined for a query of the lane `chat`, which uses no tools.
   */
  async #hasTools(): Promise<boolean | undefined> {
    const { request, signal } = this.#query;
    if (request.lane === "chat") return undefined;
    try {
      return (await findLocalModel(this.#dependencies.facts, signal)) !== undefined;
    } catch (error) {
      signal.throwIfAborted();
      return !(error instanceof AssistantError && error.code === "no_model");
    }
  }

  async #useTools(context: string, provenance: readonly string[]): Promise<readonly PassResult[]> {
    const { request, caller, signal } = this.#query;
    const { isAvailable, calls, results } = await this.#dependencies.agentPass.run(
      {
        prompt: request.prompt,
        context,
        provenance: ["user", ...provenance],
        caller,
        model: this.#route.localModel,
        ask: (spec, withdrawn) => this.#callbacks.ask({ ...spec, kind: "call" }, withdrawn),
        resume: () => this.#callbacks.resume(),
        onCall: (call) => {
          const { progress } = this.#query;
          this.#query.progress = { ...progress, calls: [...progress.calls, call] };
        },
      },
      signal,
    );
    const note = isAvailable ? "" : NO_TOOLS;
    this.#query.progress = { ...this.#query.progress, calls, note };
    return results;
  }

  /** Throws `consent_required` if the provider's address has changed since the user consented to it. */
  #checkAddress(): void {
    const { remote } = this.#route;
    if (!remote || this.#allowedAddress === undefined) return;
    if (this.#dependencies.remote.addressOf(remote.provider) === this.#allowedAddress) return;
    throw new AssistantError(
      "consent_required",
      `the address of the provider ${remote.provider} has changed since you were asked: ask again`,
    );
  }

  /**
   * Resolves when all of these data classes may be sent. Asks the user once for the classes that are not allowed yet.
   */
  async #requestConsent(classes: readonly DataClass[]): Promise<void> {
    const { remote, clock, ledger, limits = defaultOverlayLimits } = this.#dependencies;
    const scopes = this.#missing(classes);
    const to = this.#route.remote;
    if (scopes.length === 0 || !to) return;
    this.#checkAddress();
    const { id, signal, request, caller, progress } = this.#query;
    const address = remote.addressOf(to.provider) ?? "";
    const consentRequest: ConfirmationRequest = {
      v: 1,
      kind: "consent",
      provider: to.provider,
      address,
      model: to.model,
      scopes,
      sources: this.#sources,
      calls: progress.calls,
      prompt: escapeLine(request.prompt, PROMPT_CHARS_SHOWN),
      caller: { app: caller.app?.id ?? null, verified: sandboxedApp(caller) !== undefined },
      expires_at: timestamp(clock.now() + limits.answerTimeoutMs),
    };
    await this.#callbacks.ask(consentRequest, signal);
    this.#allowedAddress ??= address;
    this.#checkAddress();
    const fields = {
      scopes,
      once: true,
      query: id,
      provider: to.provider,
      address,
      model: to.model,
    };
    await ledger.append({ name: "remote.consent", fields });
    signal.throwIfAborted();
    for (const scope of scopes) this.#allowedOnce.add(scope);
  }

  async #answer(
    context: string,
    results: readonly PassResult[],
    classes: readonly DataClass[],
  ): Promise<void> {
    const messages = buildTurnMessages(this.#query.request, context, results);
    this.#checkAddress();
    const attempt = () =>
      streamAnswer(this.#query, {
        inference: this.#dependencies.inference,
        model: this.#selectModel(),
        messages,
        egress: this.#buildEgress(classes),
        onText: (text) => this.#callbacks.token(text),
      });
    try {
      await attempt();
    } catch (error) {
      // Consent is requested only if a local model failed and a remote model is the fallback. If the turn began with a
      // remote model, the user had consented and has revoked the consent since, so no question is asked.
      const isAskable =
        error instanceof AssistantError &&
        error.code === "consent_required" &&
        this.#route.kind === "local" &&
        !this.#hasAnswered;
      if (!isAskable || this.#route.remote === undefined || this.#missing(classes).length === 0)
        throw error;
      this.#checkProvider();
      await this.#requestConsent(classes);
      await attempt();
    }
  }

  get #hasAnswered(): boolean {
    return this.#query.progress.model !== null;
  }

  /**
   * Returns the data classes that may not be sent yet. The user's permanent consent does not count for a sandboxed app
   * without the network: otherwise the app could use that consent to send anything to a provider.
   */
  #missing(classes: readonly DataClass[]): readonly DataClass[] {
    const missing = this.#isOnceOnly ? classes : this.#dependencies.remote.missing(classes);
    return missing.filter((scope) => !this.#allowedOnce.has(scope));
  }

  get #isOnceOnly(): boolean {
    return !mayUseNetwork(this.#query.caller);
  }

  #buildEgress(classes: readonly DataClass[]): Egress {
    const egress = { classes, allowedOnce: [...this.#allowedOnce] };
    return this.#isOnceOnly ? { ...egress, isOnceOnly: true } : egress;
  }

  /**
   * Returns the model to request. One-time consent is valid for one provider, so no other provider may be tried with
   * it.
   */
  #selectModel(): string | undefined {
    const { remote } = this.#route;
    return remote && this.#allowedOnce.size > 0
      ? formatRemoteModelName(remote)
      : this.#query.request.modelHint;
  }
}

/** Returns true if a query must not continue without context after this error of the search. */
function isFatalSearchError({ code, param }: AssistantError): boolean {
  return code === "ledger_unavailable" || (code === "invalid_request" && param === "scopes");
}

/**
 * Cuts the user's prompt to the longest query that a search accepts. Questions are usually short, and the beginning of
 * a long pasted text is enough for a search.
 */
function truncateSearchQuery(prompt: string): string {
  const bytes = Buffer.from(prompt);
  if (bytes.length <= SEARCH_QUERY_BYTES_MAX) return prompt;
  let end = SEARCH_QUERY_BYTES_MAX;
  while (((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end -= 1;
  return bytes.toString("utf8", 0, end);
}
