import { copyFileSync, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { AgentRules } from "../../src/assistant/agent/agent-rules.ts";
import { Agent, type AgentOptions } from "../../src/assistant/agent/calls/agent.ts";
import type {
  CallAnswer,
  CallRequest,
  CallStatus,
  ConfirmationSpec,
  JsonObject,
  Tier,
} from "../../src/assistant/agent/port.ts";
import { type LateAnswer, ToolAppError } from "../../src/assistant/agent/tool-apps.ts";
import type {
  AppManifest,
  ToolDeclaration,
  ToolRegistry,
} from "../../src/assistant/agent/tool-manifest.ts";
import type { Caller } from "../../src/assistant/caller.ts";
import { hashJson } from "../../src/base/canonical-json.ts";
import { silentLogger } from "../../src/base/logger.ts";
import type { ScriptedAnswer } from "../contract/assistant/tool-apps-contract.ts";
import { FakeLedger } from "./fake-ledger.ts";
import { type FakeApp, FakeToolApps } from "./fake-tool-apps.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import { VirtualClock } from "./virtual-clock.ts";

export const NOTES = "org.example.notes";

/** Returns a caller that is a program of the user without a sandbox. */
export function userCaller(connection = ":1.1"): Caller {
  return { connection, pid: 100, app: undefined };
}

export function sandboxedCaller(id: string, connection = ":1.9"): Caller {
  return { connection, pid: 200, app: { id, kind: "flatpak" } };
}

const id = {
  type: "object",
  properties: { id: { type: "string" } },
  required: ["id"],
  additionalProperties: false,
};
const title = {
  type: "object",
  properties: {
    title: { type: "string", maxLength: 120, title: "Title" },
    body: { type: "string" },
    stars: { type: "integer" },
  },
  required: ["title"],
  additionalProperties: false,
};

export function buildDeclaration(
  name: string,
  tier: Tier,
  inputSchema: JsonObject,
  undo?: ToolDeclaration["undo"],
): ToolDeclaration {
  const plain = { name, tier, inputSchema, undo: undo && [undo.tool, ...undo.map] };
  const description = `Does ${name}.`;
  const texts = { title: name, description, keywords: [], examples: [] };
  return { name, ...texts, tier, inputSchema, undo, digest: hashJson(plain) };
}

const deleteUndo: ToolDeclaration["undo"] = {
  tool: "delete",
  map: new Map([["id", { from: "result", fields: ["id"] }]]),
};

/**
 * The tools of the notes app: `list` reads; `star` reads and can be undone; `create` writes and can be undone; `delete`
 * is destructive.
 */
export const notesTools: readonly ToolDeclaration[] = [
  buildDeclaration("list", "read", { type: "object", additionalProperties: false }),
  buildDeclaration("star", "read", title, deleteUndo),
  buildDeclaration("create", "write", title, deleteUndo),
  buildDeclaration("delete", "destructive", id),
];

export class FakeRegistry implements ToolRegistry {
  version = 1;
  readonly #listeners = new Set<() => void>();
  #apps: readonly AppManifest[];

  constructor(apps: readonly AppManifest[]) {
    this.#apps = apps;
  }

  set(apps: readonly AppManifest[]): void {
    this.#apps = apps;
    this.version += 1;
    for (const onChanged of this.#listeners) onChanged();
  }

  subscribe(onChanged: () => void): () => void {
    this.#listeners.add(onChanged);
    return () => this.#listeners.delete(onChanged);
  }

  apps(): readonly AppManifest[] {
    return this.#apps;
  }

  find(appId: string): AppManifest | undefined {
    return this.#apps.find((app) => app.appId === appId);
  }
}

export const permissiveRules: AgentRules = {
  isPaused: false,
  disabledApps: new Set(),
  disabledTools: new Set(),
  confirm: "any",
};

/** An agent with a notes app; a test can close the agent and open it again. */
export class AgentHarness {
  readonly clock = new VirtualClock();
  readonly ledger = new FakeLedger();
  readonly apps = new FakeToolApps();
  readonly registry = new FakeRegistry([
    { appId: NOTES, name: "Notes", isActivatable: false, tools: notesTools },
  ]);
  /** The milliseconds for which the machine has slept. Only the boot clock includes this time. */
  sleptMs = 0;
  rules: AgentRules = permissiveRules;
  /** The app's notes, by id. */
  readonly notes = new Map<string, unknown>();
  readonly confirmationRequests: { readonly callId: number; readonly spec: ConfirmationSpec }[] =
    [];
  readonly resolved: { readonly callId: number; readonly status: CallStatus }[] = [];
  /** The number of calls that have reached the app, over all restarts of the agent. */
  received = 0;
  app: FakeApp;
  dir: string;
  #agent: Agent | undefined;
  #created = 0;

  private constructor(dir: string) {
    this.dir = dir;
    this.app = this.startNotes();
  }

  /** Opens the agent; `prepare` runs before the agent starts. */
  static async open(
    options: Partial<AgentOptions> = {},
    dir = temporaryFolder("agent"),
    prepare: (harness: AgentHarness) => void = () => {},
  ): Promise<AgentHarness> {
    const harness = new AgentHarness(dir);
    prepare(harness);
    await harness.start(options);
    return harness;
  }

  get agent(): Agent {
    if (!this.#agent) throw new Error("the agent is not running");
    return this.#agent;
  }

  async start(options: Partial<AgentOptions> = {}): Promise<void> {
    this.#agent = await Agent.open({
      registry: this.registry,
      apps: this.apps,
      ledger: this.ledger,
      rules: () => this.rules,
      discover: async () => [],
      discoverState: () => ({ v: 1, tools: 0, vectors: null }),
      dir: this.dir,
      clock: this.clock,
      bootClock: { now: () => this.clock.now() + this.sleptMs },
      logger: silentLogger,
      durability: "off",
      ...options,
    });
    this.#agent.subscribe({
      confirmationRequested: (callId, spec) => this.confirmationRequests.push({ callId, spec }),
      callResolved: (callId, status) => this.resolved.push({ callId, status }),
    });
  }

  /** Closes the agent and starts it again. */
  async restart(): Promise<void> {
    await this.agent[Symbol.asyncDispose]();
    this.ledger.restart();
    await this.start();
  }

  /** Copies the agent's database, as a crash would leave it, to a new folder. Returns the path of the folder. */
  snapshot(): string {
    const copy = temporaryFolder("agent");
    mkdirSync(copy, { recursive: true });
    for (const name of ["agent.db", "agent.db-wal"]) {
      if (existsSync(join(this.dir, name))) copyFileSync(join(this.dir, name), join(copy, name));
    }
    return copy;
  }

  startNotes(declarations: readonly ToolDeclaration[] = notesTools): FakeApp {
    const tools = declarations.map(({ name, description, inputSchema }) => ({
      name,
      description,
      inputSchema,
      answer: { kind: "result" } as const,
    }));
    const app = this.apps.start(NOTES, tools);
    app.respond = (name, args) => this.#runTool(name, args);
    this.app = app;
    return app;
  }

  /**
   * Makes the next tool call fail with `code`, although it reaches the app. `late` is the answer that the app gives
   * after a timeout. By default it gives none.
   */
  failNextCall(code: ToolAppError["code"], late?: Promise<LateAnswer | undefined>): void {
    this.apps.fault = (step) => {
      if (step !== "call") return;
      this.apps.fault = () => {};
      throw new ToolAppError(code, "the app failed", { late });
    };
  }

  async request(
    tool: string,
    args: JsonObject | string,
    more: Partial<CallRequest> & { readonly caller?: Caller } = {},
  ): Promise<CallAnswer> {
    const { caller = userCaller(), ...rest } = more;
    const argsJson = typeof args === "string" ? args : JSON.stringify(args);
    const request = {
      appId: NOTES,
      tool,
      argsJson,
      actor: undefined,
      provenance: ["user"],
      ...rest,
    };
    return this.agent.requestCall(request, caller, new AbortController().signal);
  }

  /** Requests a call that waits for confirmation, and returns its id. */
  async park(
    tool = "create",
    args: JsonObject = { title: "a" },
    caller = userCaller(),
  ): Promise<number> {
    const answer = await this.request(tool, args, { caller });
    if (!answer.disposition.startsWith("confirm-"))
      throw new Error(`not parked: ${JSON.stringify(answer)}`);
    return answer.callId;
  }

  #runTool(name: string, args: JsonObject): ScriptedAnswer {
    this.received += 1;
    switch (name) {
      case "list":
        return { kind: "result", structured: { notes: [...this.notes.keys()] } };
      case "star":
      case "create": {
        this.#created += 1;
        const created = `n${this.#created}`;
        this.notes.set(created, args);
        return { kind: "result", structured: { id: created } };
      }
      default:
        if (this.notes.delete(String(args["id"])))
          return { kind: "result", structured: { gone: true } };
        return { kind: "result", isError: true, content: [{ type: "text", text: "no such note" }] };
    }
  }
}
