import { getErrorMessage } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { formatDottedPath } from "../../resources/json-pointer.ts";
import type { ApplyResult, EventLog } from "../../store/store.ts";
import {
  type DeclaredResource,
  formatDeclaredId,
  type HeldPrune,
  type ResourceKey,
} from "./prune-guard.ts";
import type { AbsentFolder } from "./scan-folder.ts";
import type { SpecFile } from "./spec-file.ts";

const FIELDS_SHOWN_MAX = 5;

/** Reports changes of the folder as events and log lines. Each change is reported once. */
export class SpecEvents {
  readonly #events: EventLog;
  readonly #logger: Logger;

  constructor(events: EventLog, logger: Logger) {
    this.#events = events;
    this.#logger = logger;
  }

  recordApplied(key: ResourceKey, file: string, { created, changes }: ApplyResult): void {
    if (!created && changes.length === 0) return;
    const fields = changes.slice(0, FIELDS_SHOWN_MAX).map(({ path }) => formatDottedPath(path));
    const more =
      changes.length > FIELDS_SHOWN_MAX ? ` and ${changes.length - fields.length} more` : "";
    const message = created
      ? `created from ${file}`
      : `changed by ${file}: ${fields.join(", ")}${more}`;
    this.#events.record({ ...key, type: "Normal", reason: "SpecApplied", message });
    this.#logger.info({ ...key, file, created }, "spec applied");
  }

  /** Records each problem once. If a file stays invalid, no further event is recorded. */
  recordRefused(before: SpecFile | undefined, now: SpecFile): void {
    const [first] = now.errors;
    if (!first) return;
    const message = summarizeErrors(now);
    if (before && before.state === now.state && summarizeErrors(before) === message) return;
    const reason = now.state === "conflict" ? "SpecConflict" : "SpecInvalid";
    this.#events.record({ kind: null, name: "", type: "Warning", reason, message });
    this.#logger.warn(
      { file: now.path, line: first.line, column: first.column, err: first.message },
      "spec file refused, its last valid content stays applied",
    );
  }

  recordPruned({ kind, name, file }: DeclaredResource): void {
    const message = `deleted: ${file} does not declare it any more`;
    this.#events.record({ kind, name, type: "Normal", reason: "Pruned", message });
    this.#logger.info({ kind, name, file }, "resource pruned");
  }

  logPruneFailure({ kind, name, file }: DeclaredResource, error: unknown): void {
    this.#logger.warn(
      { kind, name, file, err: getErrorMessage(error) },
      "pruning failed, will retry",
    );
  }

  recordHeld(before: readonly HeldPrune[], now: readonly HeldPrune[]): void {
    const known = new Set(before.map(formatDeclaredId));
    if (now.every((held) => known.has(formatDeclaredId(held)))) return;
    const names = now.slice(0, FIELDS_SHOWN_MAX).map(({ kind, name }) => `${kind} ${name}`);
    const more = now.length > names.length ? ` and ${now.length - names.length} more` : "";
    const message = `not deleted: ${names.join(", ")}${more}, because ${now[0]?.reason}; to delete them run: berth prune --confirm`;
    this.#events.record({ kind: null, name: "", type: "Warning", reason: "PruneHeld", message });
    this.#logger.warn(
      { count: now.length, why: now[0]?.reason },
      "pruning waits for a confirmation",
    );
  }

  recordFolderAbsent({ state, message }: AbsentFolder): void {
    const reason = state === "missing" ? "SpecFolderMissing" : "SpecFolderUnreadable";
    const text = `the watched folder is ${state} (${message}); nothing is applied or deleted until it is back`;
    this.#events.record({ kind: null, name: "", type: "Warning", reason, message: text });
    this.#logger.warn({ why: message }, "the watched folder cannot be read");
  }

  logFolderReturned(): void {
    this.#logger.info({}, "the watched folder can be read again");
  }
}

function summarizeErrors({ path, errors }: SpecFile): string {
  const [first] = errors;
  if (!first) return "";
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  return `${path}:${first.line}:${first.column}: ${first.message}${more}`;
}
