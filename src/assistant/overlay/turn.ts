import { timestamp } from "../../base/clock.ts";
import { type Caller, sandboxedApp } from "../caller.ts";
import type { SearchHit } from "../context/port.ts";
import type { DataClass } from "../data-class.ts";
import { AssistantError } from "../errors.ts";
import { remoteModelId } from "../inference/routing/port.ts";
import type { PassResult } from "./agent-pass/port.ts";
import { shownLine } from "./agent-pass/shown-text.ts";
import { answerTo } from "./answer.ts";
import { classesOf } from "./egress-classes.ts";
import { localModelOf } from "./local-model.ts";
import { type OverlayOptions, overlayLimits } from "./options.ts";
import type { SourceMeta, TurnMeta, Wish } from "./port.ts";
import type { Query } from "./query.ts";
import { type Route, routeOf } from "./route.ts";
import { searchQuery } from "./search-query.ts";
import { contextText, messagesOf } from "./turn-messages.ts";

/** Passages that a small model reads along with a question. */
const HITS = 5;

/** Characters of a prompt, for whoever decides whether it leaves. */
const PROMPT_SHOWN = 400;

/** Found out only after Started: a model was there, and does not fit into memory, or the tools not into it. */
const NO_TOOLS = "answered without tools: the local model could not choose any";

/** What a turn tells, and how it asks. */
export interface TurnVoice {
  started(meta: TurnMeta): void;
  /** Whole code points, never "". */
  token(text: string): void;
  /** Who said yes. Rejects with DeniedError, and with the reason of a signal that takes the question back. */
  ask(wish: Wish, signal: AbortSignal): Promise<Caller>;
}

/** What was found before anything else happened. */
interface Found {
  readonly hits: readonly SearchHit[];
  readonly hasSearched: boolean;
}

/**
 * One turn: find what the question is about, ask for what would leave the machine, let the local model use tools,
 * ask again for what they brought in, answer. A person is asked as early as it is known for what, so that
 * nothing is done in vain. Rejects with what ended it.
 */
export class Turn {
  readonly #options: OverlayOptions;
  readonly #query: Query;
  readonly #voice: TurnVoice;
  readonly #route: Route;
  readonly #allowedOnce = new Set<DataClass>();
  /** Where what was allowed once may go: the provider of that name may be another one by then. */
  #allowedAddress: string | undefined;
  #sources: readonly SourceMeta[] = [];

  constructor(options: OverlayOptions, query: Query, voice: TurnVoice) {
    this.#options = options;
    this.#query = query;
    this.#voice = voice;
    this.#route = routeOf(options.routes, query.request.modelHint);
  }

  async run(): Promise<void> {
    const { signal } = this.#query;
    if (this.#route.kind === "remote") this.#checkProvider();
    const [found, hasTools] = await Promise.all([this.#search(), this.#hasTools()]);
    signal.throwIfAborted();
    this.#sources = found.hits.map(sourceOf);
    this.#voice.started(this.#meta(found, hasTools));

    const provenance = [...new Set(found.hits.map((hit) => hit.provenance))];
    if (this.#route.kind === "remote") await this.#allow(classesOf(provenance, false));
    const context = contextText(found.hits);
    const results = hasTools === true ? await this.#useTools(context, provenance) : [];
    const classes = classesOf(provenance, results.length > 0);
    if (this.#route.kind === "remote") await this.#allow(classes);
    await this.#answer(context, results, classes);
  }

  /** Before a person is asked about somebody who is not there. */
  #checkProvider(): void {
    const { remote } = this.#route;
    if (remote && this.#options.remote.addressOf(remote.provider) !== undefined) return;
    throw new AssistantError(
      "model_not_found",
      remote
        ? `there is no provider ${remote.provider}: add it, or ask another model`
        : "the model's name begins with remote: and has to be remote:<provider>:<model>",
    );
  }

  async #search(): Promise<Found> {
    const { request, caller, signal } = this.#query;
    if (!request.myStuff) return { hits: [], hasSearched: false };
    const search = {
      query: searchQuery(request.prompt),
      limit: HITS,
      isHybrid: true,
      scopes: undefined,
    };
    try {
      const hits = await this.#options.context.search(search, caller, signal);
      return { hits, hasSearched: true };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof AssistantError && error.code === "ledger_unavailable") throw error;
      this.#options.logger.warn(
        { err: error, query: this.#query.id },
        "a query goes on without context",
      );
      return { hits: [], hasSearched: false };
    }
  }

  /** Undefined: none are wanted. Where nobody can tell, they are tried. */
  async #hasTools(): Promise<boolean | undefined> {
    const { request, signal } = this.#query;
    if (request.lane === "chat") return undefined;
    try {
      return (await localModelOf(this.#options.facts, signal)) !== undefined;
    } catch {
      signal.throwIfAborted();
      return true;
    }
  }

  #meta({ hasSearched }: Found, hasTools: boolean | undefined): TurnMeta {
    const { lane, modelHint, myStuff, window, selection } = this.#query.request;
    return {
      v: 1,
      lane,
      model: modelHint ?? null,
      route: this.#route.kind,
      options: hasSearched ? ["my_stuff"] : [],
      unavailable: [
        ...(myStuff && !hasSearched ? ["my_stuff"] : []),
        ...(window ? ["window"] : []),
        ...(selection ? ["selection"] : []),
        ...(hasTools === false ? ["tools"] : []),
      ],
      sources: this.#sources,
    };
  }

  async #useTools(context: string, provenance: readonly string[]): Promise<readonly PassResult[]> {
    const { request, caller, signal } = this.#query;
    const { isAvailable, calls, results } = await this.#options.agentPass.run(
      {
        prompt: request.prompt,
        context,
        provenance: ["user", ...provenance],
        caller,
        model: this.#route.localModel,
        ask: (spec, withdrawn) => this.#voice.ask({ ...spec, kind: "call" }, withdrawn),
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

  /** Throws `consent_required` where the provider that a person said yes to has become another one. */
  #checkAddress(): void {
    const { remote } = this.#route;
    if (!remote || this.#allowedAddress === undefined) return;
    if (this.#options.remote.addressOf(remote.provider) === this.#allowedAddress) return;
    throw new AssistantError(
      "consent_required",
      `the provider ${remote.provider} is not where it was when you were asked: ask again`,
    );
  }

  /** Returns when all of these may leave; they are asked for together, those alone that are missing. */
  async #allow(classes: readonly DataClass[]): Promise<void> {
    const { remote, clock, ledger, limits = overlayLimits } = this.#options;
    const scopes = remote.missing(classes).filter((scope) => !this.#allowedOnce.has(scope));
    const to = this.#route.remote;
    if (scopes.length === 0 || !to) return;
    this.#checkAddress();
    const { id, signal, request, caller, progress } = this.#query;
    const address = remote.addressOf(to.provider) ?? "";
    const wish: Wish = {
      v: 1,
      kind: "consent",
      provider: to.provider,
      address,
      model: to.model,
      scopes,
      sources: this.#sources,
      calls: progress.calls,
      prompt: shownLine(request.prompt, PROMPT_SHOWN),
      caller: { app: caller.app?.id ?? null, verified: sandboxedApp(caller) !== undefined },
      expires_at: timestamp(clock.now() + limits.answerMs),
    };
    await this.#voice.ask(wish, signal);
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
    const messages = messagesOf(this.#query.request, context, results);
    this.#checkAddress();
    const attempt = () =>
      answerTo(this.#query, {
        inference: this.#options.inference,
        model: this.#model(),
        messages,
        egress: { classes, allowedOnce: [...this.#allowedOnce] },
        onText: (text) => this.#voice.token(text),
      });
    try {
      await attempt();
    } catch (error) {
      // A local model failed, and a remote one stands behind it. Where the remote one came first, consent was there
      // and has been taken back: whoever has just said no is not asked again.
      const isAskable =
        error instanceof AssistantError &&
        error.code === "consent_required" &&
        this.#route.kind === "local" &&
        !this.#hasSpoken;
      if (!isAskable || !this.#isMissing(classes)) throw error;
      this.#checkProvider();
      await this.#allow(classes);
      await attempt();
    }
  }

  get #hasSpoken(): boolean {
    return this.#query.progress.model !== null;
  }

  #isMissing(classes: readonly DataClass[]): boolean {
    const missing = this.#options.remote.missing(classes);
    return (
      this.#route.remote !== undefined && missing.some((scope) => !this.#allowedOnce.has(scope))
    );
  }

  /** What was allowed once was allowed for one provider: no other one is tried then. */
  #model(): string | undefined {
    const { remote } = this.#route;
    return remote && this.#allowedOnce.size > 0
      ? remoteModelId(remote)
      : this.#query.request.modelHint;
  }
}

function sourceOf({ source, provenance, title, uri, score }: SearchHit): SourceMeta {
  return { source, provenance, title, uri, score };
}
