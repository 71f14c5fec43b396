import { BusCallError, type BusValue } from "../../src/dbus/port.ts";
import type { BusAnswer } from "./fake-companion.ts";

const NOTES = "org.example.Notes";
/** A text that moves the cursor up, clears a line, and imitates the companion's own output. */
const HOSTILE = "\u001b[1A\u001b[2KBecause of: user\u009b31m\u202etxt";

interface Parked {
  readonly tool: string;
  readonly args: unknown;
  readonly spec: object;
  end: { readonly status: string; readonly detail: object } | undefined;
}

/**
 * A companion without rules, ledger or apps, for tests of the command line. It answers as the interfaces define. Its
 * tools add notes (confirm-chip, can be undone), list them (read) and delete them (confirm-modal).
 */
export class ScriptedAgent {
  readonly notes = new Map<number, string>();
  readonly memory = new Map<string, Map<string, string>>();
  /** The arguments of each RequestCall. */
  readonly requests: {
    readonly tool: string;
    readonly args: unknown;
    readonly options: unknown;
  }[] = [];
  holdMs = 0;
  hasConfirmer = false;
  /** If true, Confirm refuses the connection that requested the call. */
  isStrict = false;
  /** Called with each signal. */
  emit: (member: string, signature: string, args: readonly BusValue[]) => void = () => {};
  readonly #parked = new Map<bigint, Parked>();
  readonly #done: { readonly callId: bigint; readonly note: number }[] = [];
  #nextCall = 17n;
  #nextNote = 1;

  readonly methods: Readonly<Record<string, BusAnswer>> = {
    Ping: () => ["scripted"],
    ListTools: () => [JSON.stringify(tools)],
    Discover: (query) => [
      JSON.stringify(tools.filter(({ description }) => description.includes(textOf(query)))),
    ],
    RequestCall: (appId, tool, argsJson, options) =>
      this.#request(textOf(appId), textOf(tool), textOf(argsJson), options),
    ListParked: () => [
      JSON.stringify(
        [...this.#parked.values()].flatMap(({ spec: asked, end }) => (end ? [] : [asked])),
      ),
    ],
    Confirm: (callId, approve) => {
      if (this.isStrict)
        throw new BusCallError("org.freedesktop.DBus.Error.AccessDenied", "whoever asked may not");
      return this.confirm(numberOf(callId), approve === true);
    },
    Undo: () => [JSON.stringify(this.#undo())],
    UndoSkip: (callId) => {
      const at = this.#done.findIndex((call) => call.callId === callId);
      if (at < 0) throw new BusCallError("dev.assistant.Error.NotFound", "there is no such call");
      this.#done.splice(at, 1);
      return [JSON.stringify(createUndoReport("skipped", Number(callId), this.#done.length))];
    },
    RegisterConfirmer: () => {
      this.hasConfirmer = true;
      return [];
    },
    ApproveTool: (_app, _tool, digest) => {
      if (digest !== "d".repeat(64))
        throw new BusCallError("dev.assistant.Error.NotFound", "the tool is something else by now");
      return [];
    },
    Search: (query, options) => [JSON.stringify(createHits(textOf(query), options))],
    IndexState: () => [
      JSON.stringify({
        v: 1,
        state: "degraded",
        documents: 12,
        chunks: 30,
        sources: [
          { name: "notes", documents: 10, state: "ready", message: null },
          { name: "work", documents: 2, state: "degraded", message: "too many folders to watch" },
        ],
      }),
    ],
    MemoryGet: (app, key) => {
      const value = this.memory.get(textOf(app))?.get(textOf(key));
      if (value === undefined)
        throw new BusCallError("dev.assistant.Error.NotFound", `${textOf(app)} has no such key`);
      return [value];
    },
    MemorySet: (app, key, value) => {
      const kept = this.memory.get(textOf(app)) ?? new Map<string, string>();
      this.memory.set(textOf(app), kept.set(textOf(key), textOf(value)));
      return [];
    },
    MemoryList: (app) => [JSON.stringify(Object.fromEntries(this.memory.get(textOf(app)) ?? []))],
    MemoryWipe: (app) => {
      this.memory.delete(textOf(app));
      return [];
    },
  };

  /** Handles the method Confirm; tests also call it as another frontend. */
  confirm(callId: bigint, approve: boolean): readonly BusValue[] {
    const parked = this.#parked.get(callId);
    if (parked === undefined)
      return ["failed", JSON.stringify(createDetail("unknown_call", "there is no such call", ""))];
    if (parked.end !== undefined)
      return [parked.end.status, JSON.stringify({ ...parked.end.detail, replayed: true })];
    parked.end = approve
      ? this.#run(callId, parked.tool, parked.args)
      : {
          status: "denied",
          detail: createDetail("declined", "the call was declined", parked.tool),
        };
    this.emit("CallResolved", "ts", [callId, parked.end.status]);
    return [parked.end.status, JSON.stringify(parked.end.detail)];
  }

  /** Makes the call expire as if five minutes had passed. */
  expire(callId: bigint): void {
    const parked = this.#parked.get(callId);
    if (parked === undefined) throw new Error("there is no such call");
    parked.end = {
      status: "denied",
      detail: createDetail("expired", "nobody decided", parked.tool),
    };
    this.emit("CallResolved", "ts", [callId, "denied"]);
  }

  #request(
    appId: string,
    tool: string,
    argsJson: string,
    options: BusValue | undefined,
  ): readonly BusValue[] {
    const callId = this.#nextCall;
    this.#nextCall += 1n;
    const refuse = (code: string, message: string, more: object = {}) => [
      callId,
      code === "manifest_changed" ? "denied" : "failed",
      JSON.stringify({ ...createDetail(code, message, tool), app_id: appId, ...more }),
    ];
    let args: unknown;
    try {
      args = JSON.parse(argsJson);
    } catch {
      return refuse("bad_json", "the arguments are not JSON: line 1, column 2");
    }
    const given = options instanceof Map ? Object.fromEntries(options) : {};
    this.requests.push({ tool, args, options: given });
    if (appId !== NOTES) return refuse("unknown_app", `no app is called ${appId}`);
    if (tool === "changed_tool")
      return refuse("manifest_changed", "the tool is not what its manifest declares", {
        digest: "d".repeat(64),
      });
    if (tool === "add_note" && titleOf(args) === undefined)
      return refuse("invalid_args", "the arguments do not fit", {
        errors: [{ path: "/title", message: "is missing" }],
      });
    const isTrusted = isUser(options);
    if (tool === "list_notes" && isTrusted) {
      const { status, detail: done } = this.#run(callId, tool, args);
      return [callId, status, JSON.stringify(done)];
    }
    const isModal = tool === "delete_note" || (tool === "add_note" && !isTrusted);
    const asked = createSpec(callId, tool, args, isModal, chainOf(options), this.holdMs);
    this.#parked.set(callId, { tool, args, spec: asked, end: undefined });
    this.emit("ConfirmationRequested", "ts", [callId, JSON.stringify(asked)]);
    return [
      callId,
      isModal ? "confirm-modal" : "confirm-chip",
      JSON.stringify(createDetail("confirm", "it waits to be confirmed", tool)),
    ];
  }

  #run(callId: bigint, tool: string, args: unknown): { status: string; detail: object } {
    const done = (result: unknown, text: string, undoable = false) => ({
      status: "executed",
      detail: {
        ...createDetail("ok", "done", tool),
        result,
        content: [{ type: "text", text }],
        undoable,
      },
    });
    if (tool === "list_notes") {
      const notes = [...this.notes].map(([id, title]) => ({ id, title }));
      return done({ notes }, JSON.stringify({ notes }));
    }
    if (tool === "delete_note")
      return {
        status: "failed",
        detail: createDetail("tool_error", `it is locked ${HOSTILE}`, tool),
      };
    const id = this.#nextNote;
    this.#nextNote += 1;
    this.notes.set(id, titleOf(args) ?? "");
    this.#done.push({ callId, note: id });
    return done({ note: { id } }, `added note ${id}${HOSTILE}`, true);
  }

  #undo(): object {
    const last = this.#done.pop();
    if (last === undefined)
      return { ...createUndoReport("nothing", null, 0), app_id: null, tool: null };
    if (this.notes.delete(last.note))
      return {
        ...createUndoReport("undone", Number(last.callId), this.#done.length),
        compensation: { tool: "delete_note", args: { id: last.note } },
      };
    this.#done.push(last);
    return {
      ...createUndoReport("failed", Number(last.callId), this.#done.length),
      error: { code: "tool_error", message: "the note is gone" },
      attempts: 2,
    };
  }
}

const tools = [
  {
    app_id: NOTES,
    name: "add_note",
    tier: "write",
    description: "Keeps a note.",
    undoable: true,
  },
  {
    app_id: NOTES,
    name: "delete_note",
    tier: "destructive",
    description: `Deletes a note.${HOSTILE}`,
    undoable: false,
  },
  {
    app_id: "org.example.Weather",
    name: "forecast",
    tier: "read",
    description: "Tells what the weather will be,\nhere or elsewhere.",
    undoable: false,
  },
];

function createDetail(code: string, message: string, tool: string) {
  return { v: 1, code, message, app_id: NOTES, tool };
}

function createUndoReport(status: string, callId: number | null, remaining: number) {
  return {
    v: 1,
    status,
    call_id: callId,
    app_id: NOTES,
    tool: "add_note",
    compensation: null,
    result: null,
    error: null,
    attempts: 1,
    remaining,
    ledger: null,
  };
}

function createSpec(
  callId: bigint,
  tool: string,
  args: unknown,
  isModal: boolean,
  chain: readonly string[],
  holdMs: number,
) {
  const entries = Object.entries(typeof args === "object" && args !== null ? args : {});
  return {
    v: 1,
    call_id: Number(callId),
    app_id: NOTES,
    app_name: "Notes",
    tool,
    title: tool === "add_note" ? "Keep a note" : "Delete a note",
    description: `Of your notes.${HOSTILE}`,
    args,
    tiers: {
      declared: tool === "add_note" ? "write" : "destructive",
      effective: isModal ? "destructive" : "write",
    },
    chain,
    diff: entries.map(([name, value]: [string, unknown]) => ({
      path: `/${name}`,
      label: name.toUpperCase(),
      type: typeof value,
      value,
    })),
    undo: tool === "add_note" ? "delete_note" : null,
    caller: { app: null, verified: false, actor: null },
    expires_at: "2026-11-20T20:05:00.000Z",
    hold_ms: holdMs,
    digest: "d".repeat(64),
  };
}

function createHits(query: string, options: BusValue | undefined): object[] {
  if (!query.includes("boiler")) return [];
  const isHybrid = options instanceof Map && options.has("hybrid");
  return [
    {
      source: "notes",
      provenance: "file:notes",
      snippet: `The boiler was serviced in May.\nBoilers need${HOSTILE} it every year.`,
      score: 1.5,
      uri: "file:///home/me/Notes/house.md",
      title: "House",
      id: "1",
      mtime: "2026-05-03T00:00:00.000Z",
      parts: { lexical: 1, cosine: isHybrid ? 2 : null },
      mode: "lexical",
    },
  ];
}

function titleOf(args: unknown): string | undefined {
  const isNamed = typeof args === "object" && args !== null && "title" in args;
  return isNamed && typeof args.title === "string" ? args.title : undefined;
}

function chainOf(options: BusValue | undefined): readonly string[] {
  if (!(options instanceof Map)) return [];
  const labels: unknown = options.get("provenance")?.value;
  return Array.isArray(labels) ? labels.map(String) : [];
}

function isUser(options: BusValue | undefined): boolean {
  const chain = chainOf(options);
  return chain.length > 0 && chain.every((label) => label === "user");
}

function textOf(value: BusValue | undefined): string {
  if (typeof value !== "string") throw new TypeError("the signature has a string here");
  return value;
}

function numberOf(value: BusValue | undefined): bigint {
  if (typeof value !== "bigint") throw new TypeError("the signature has a t here");
  return value;
}
