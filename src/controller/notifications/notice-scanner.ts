import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { Kind } from "../../resources/kinds.ts";
import type { Store, StoreChange } from "../../store/store.ts";
import {
  computeAppNotices,
  computeEventNotices,
  type Notice,
  type ReportedState,
} from "./compute-notices.ts";

/** The key of the cursor. All changes of the store up to the cursor have been processed. */
const CURSOR = "webhooks.sequence";
/**
 * The cursor is written after this number of changes even if there was no notice, because the store drops old changes.
 */
const CURSOR_STEP = 2_000;
const PAGE = 500;

/** A notice, and the resource that the notice is about. */
export interface ResourceNotice extends Notice {
  readonly kind: Kind;
  readonly name: string;
  readonly time: string;
  /** The URL of the app, if it is known. */
  readonly url: string | null;
}

/**
 * Finds due notices by processing the changes of the store after the cursor. A notice and the record of it are
 * committed together. If Berth crashes before that, the notice is found again at the next start.
 */
export class NoticeScanner {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onNotice: (occurrence: ResourceNotice) => void;
  #cursor: number;
  #savedCursor: number;
  /** The time, in epoch milliseconds, when the notices of each App have to be computed again. */
  readonly #rechecks = new Map<string, number>();

  /** `onNotice` is called inside the transaction that records the notice. */
  constructor(parts: {
    readonly store: Store;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly onNotice: (occurrence: ResourceNotice) => void;
  }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
    this.#onNotice = parts.onNotice;
    this.#cursor = Number(parts.store.settings.get(CURSOR) ?? parts.store.lastSequence);
    this.#savedCursor = this.#cursor;
    // Every app is checked once at the start, because a notice may have become due while Berth was not running.
    for (const app of parts.store.list("App")) this.#rechecks.set(app.metadata.name, 0);
  }

  /** Reports all due notices. If the store fails, throws, and the notices are reported by a later scan. */
  scan(): void {
    for (;;) {
      const changes = this.#store.changesSince(this.#cursor, PAGE);
      if (!changes) {
        this.#logger.warn({}, "the store dropped changes before webhooks were notified of them");
        this.#cursor = this.#store.lastSequence;
        for (const app of this.#store.list("App")) this.#rechecks.set(app.metadata.name, 0);
        continue;
      }
      const last = changes.at(-1)?.sequence ?? this.#cursor;
      const known = new Map(this.#rechecks);
      try {
        this.#store.batch(() => this.#processPage(changes, last));
      } catch (error) {
        this.#rechecks.clear();
        for (const [app, at] of known) this.#rechecks.set(app, at);
        throw error;
      }
      this.#cursor = last;
      if (changes.length < PAGE) return;
    }
  }

  /** The time, in epoch milliseconds, when a scan is due even if nothing changes; Infinity if none is due. */
  get recheckAt(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...this.#rechecks.values());
  }

  #processPage(changes: readonly StoreChange[], last: number): void {
    let hasEmitted = false;
    const emit = (occurrence: ResourceNotice) => {
      hasEmitted = true;
      this.#onNotice(occurrence);
    };
    const nowMs = this.#clock.now();
    const apps = new Set<string>();
    for (const [app, at] of this.#rechecks) if (at <= nowMs) apps.add(app);
    for (const change of changes) {
      if (change.type === "event" && change.event) {
        const { kind, name, lastTime: time } = change.event;
        if (kind === null) continue;
        for (const notice of computeEventNotices(change.event))
          emit({ ...notice, kind, name, time, url: null });
      } else if (change.kind === "App") {
        apps.add(change.name);
      }
    }
    for (const app of apps) this.#checkApp(app, nowMs, emit);
    if (hasEmitted || last - this.#savedCursor >= CURSOR_STEP) {
      this.#store.settings.set(CURSOR, String(last));
      this.#savedCursor = last;
    }
  }

  #checkApp(name: string, nowMs: number, emit: (occurrence: ResourceNotice) => void): void {
    this.#rechecks.delete(name);
    const { webhooks, events } = this.#store;
    const text = webhooks.getNotice(name);
    const app = this.#store.get("App", name);
    if (!app) {
      if (text !== undefined) webhooks.setNotice(name, undefined);
      return;
    }
    const before: ReportedState | undefined = text === undefined ? undefined : JSON.parse(text);
    const { notices, reported: told, recheckAt } = computeAppNotices(app, before, nowMs);
    if (recheckAt !== null) this.#rechecks.set(name, recheckAt);
    const after = JSON.stringify(told);
    if (after !== text) webhooks.setNotice(name, after);
    const time = new Date(nowMs).toISOString();
    const url = app.status?.url ?? null;
    for (const notice of notices) {
      emit({ ...notice, kind: "App", name, time, url });
      const { message } = notice;
      // The notice is also recorded as an event, so that the user sees it in the list of events.
      if (notice.events[0] === "unhealthy")
        events.record({ kind: "App", name, type: "Warning", reason: "HealthLost", message });
      if (notice.events[0] === "recovered")
        events.record({ kind: "App", name, type: "Normal", reason: "HealthRecovered", message });
    }
  }
}
