import { type OpenBus, type OpenBusOptions, openBus } from "../../src/assistant/bus/open-bus.ts";
import type { BusMethod, ServedInterface } from "../../src/assistant/bus/port.ts";
import type { ContextService } from "../../src/assistant/context/port.ts";
import { systemClock } from "../../src/base/clock.ts";
import { createRecordingLogger, type LogEntry } from "./recording-logger.ts";
import { type SessionBusOptions, TestSessionBus } from "./test-session-bus.ts";

export const DAEMON_NAME = "dev.assistant.Context1";
export const CONTEXT_PATH = "/dev/assistant/Context1";
export const CONTEXT = "dev.assistant.Context1";

/** A private bus, and `daemon`, a connection to this bus that exports the objects of the test. */
export class BusHarness implements AsyncDisposable {
  readonly bus: TestSessionBus;
  readonly daemon: OpenBus;
  readonly logged: readonly LogEntry[];

  static async start(
    options: Partial<OpenBusOptions> = {},
    busOptions: SessionBusOptions = {},
  ): Promise<BusHarness> {
    const bus = await TestSessionBus.start(busOptions);
    const logged: LogEntry[] = [];
    const daemon = await openBus({
      address: bus.address,
      logger: createRecordingLogger(logged),
      clock: systemClock,
      ...options,
    });
    return new BusHarness(bus, daemon, logged);
  }

  private constructor(bus: TestSessionBus, daemon: OpenBus, logged: readonly LogEntry[]) {
    this.bus = bus;
    this.daemon = daemon;
    this.logged = logged;
  }

  /** Serves Context1 with the test's methods; all other methods return "". Also claims the bus name of Context1. */
  async serveContext(methods: Readonly<Record<string, BusMethod>>): Promise<void> {
    this.daemon.serve(CONTEXT_PATH, createContextInterface(methods));
    await this.daemon.requestName(DAEMON_NAME);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon[Symbol.asyncDispose]();
    await this.bus[Symbol.asyncDispose]();
  }
}

const text: BusMethod = () => [""];
const none: BusMethod = () => [];

export function createContextInterface(
  methods: Readonly<Record<string, BusMethod>>,
): ServedInterface {
  return {
    name: CONTEXT,
    methods: {
      Ping: () => ["berth test"],
      Search: text,
      MemoryGet: text,
      MemorySet: none,
      MemoryList: text,
      MemoryApps: text,
      MemoryWipe: none,
      IndexState: text,
      ...methods,
    },
    properties: { Version: () => 1 },
  };
}

/** Creates a context service whose memory is a Map, and whose searches find nothing. */
export function createFakeContextService(methods: Partial<ContextService> = {}): ContextService {
  const values = new Map<string, string>();
  return {
    search: async () => [],
    indexState: () => ({
      v: 1,
      state: "empty",
      documents: 0,
      chunks: 0,
      sources: [],
      vectors: null,
    }),
    memory: {
      get: async (app, key) => values.get(`${app}/${key}`) ?? "",
      set: async (app, key, value) => void values.set(`${app}/${key}`, value),
      list: async (app) =>
        new Map(
          [...values].flatMap(([key, value]) =>
            key.startsWith(`${app}/`) ? [[key.slice(app.length + 1), value] as const] : [],
          ),
        ),
      apps: async () => [],
      wipe: async () => values.clear(),
    },
    ...methods,
  };
}
