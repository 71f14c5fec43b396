import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { Kind } from "../../resources/kinds.ts";
import type { Change, Store } from "../../store/store.ts";
import { type Notice, noticesOfApp, noticesOfEvent, type Told } from "./notice-table.ts";

/** Up to which change of the store everything has been told. */
const CURSOR = "webhooks.sequence";
/** The place is written down by then, though nothing was told: the store forgets old changes. */
const CURSOR_STEP = 2_000;
const PAGE = 500;

/** A notice with what it is about. */
export interface Occurrence extends Notice {
  readonly kind: Kind;
  readonly name: string;
  readonly time: string;
  /** Where the app is reached, where that is known. */
  readonly url: string | null;
}

/**
 * Finds out what there is to tell, going through the changes of the store from where it stopped last.
 * What is told, and that it was, is committed together: a crash in between tells it at the next start.
 */
export class Notices {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onOccurrence: (occurrence: Occurrence) => void;
  #cursor: number;
  #written: number;
  /** Apps to look at at a time, in epoch milliseconds. */
  readonly #rechecks = new Map<string, number>();

  /** `onOccurrence` is called inside the transaction. */
  constructor(parts: {
    readonly store: Store;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly onOccurrence: (occurrence: Occurrence) => void;
  }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
    this.#onOccurrence = parts.onOccurrence;
    this.#cursor = Number(parts.store.settings.get(CURSOR) ?? parts.store.lastSequence);
    this.#written = this.#cursor;
    // Whatever was written while nobody looked.
    for (const app of parts.store.list("App")) this.#rechecks.set(app.metadata.name, 0);
  }

  /** Tells everything that has not been told. Throws where the store fails; nothing is lost then. */
  tell(): void {
    for (;;) {
      const changes = this.#store.changesSince(this.#cursor, PAGE);
      if (!changes) {
        this.#logger.warn({}, "changes were forgotten before webhooks were told of them");
        this.#cursor = this.#store.lastSequence;
        for (const app of this.#store.list("App")) this.#rechecks.set(app.metadata.name, 0);
        continue;
      }
      const last = changes.at(-1)?.sequence ?? this.#cursor;
      const known = new Map(this.#rechecks);
      try {
        this.#store.batch(() => this.#page(changes, last));
      } catch (error) {
        this.#rechecks.clear();
        for (const [app, at] of known) this.#rechecks.set(app, at);
        throw error;
      }
      this.#cursor = last;
      if (changes.length < PAGE) return;
    }
  }

  /** When to call `tell` though nothing changes, in epoch milliseconds; infinity: never. */
  get recheckAt(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...this.#rechecks.values());
  }

  #page(changes: readonly Change[], last: number): void {
    let hasTold = false;
    const say = (occurrence: Occurrence) => {
      hasTold = true;
      this.#onOccurrence(occurrence);
    };
    const nowMs = this.#clock.now();
    const apps = new Set<string>();
    for (const [app, at] of this.#rechecks) if (at <= nowMs) apps.add(app);
    for (const change of changes) {
      if (change.type === "event" && change.event) {
        const { kind, name, lastTime: time } = change.event;
        if (kind === null) continue;
        for (const notice of noticesOfEvent(change.event))
          say({ ...notice, kind, name, time, url: null });
      } else if (change.kind === "App") {
        apps.add(change.name);
      }
    }
    for (const app of apps) this.#look(app, nowMs, say);
    if (hasTold || last - this.#written >= CURSOR_STEP) {
      this.#store.settings.set(CURSOR, String(last));
      this.#written = last;
    }
  }

  #look(name: string, nowMs: number, say: (occurrence: Occurrence) => void): void {
    this.#rechecks.delete(name);
    const { webhooks, events } = this.#store;
    const text = webhooks.told(name);
    const app = this.#store.get("App", name);
    if (!app) {
      if (text !== undefined) webhooks.tell(name, undefined);
      return;
    }
    const before: Told | undefined = text === undefined ? undefined : JSON.parse(text);
    const { notices, told, recheckAt } = noticesOfApp(app, before, nowMs);
    if (recheckAt !== null) this.#rechecks.set(name, recheckAt);
    const after = JSON.stringify(told);
    if (after !== text) webhooks.tell(name, after);
    const time = new Date(nowMs).toISOString();
    const url = app.status?.url ?? null;
    for (const notice of notices) {
      say({ ...notice, kind: "App", name, time, url });
      const { message } = notice;
      // People find it among the events too.
      if (notice.events[0] === "unhealthy")
        events.record({ kind: "App", name, type: "Warning", reason: "HealthLost", message });
      if (notice.events[0] === "recovered")
        events.record({ kind: "App", name, type: "Normal", reason: "HealthRecovered", message });
    }
  }
}
