import type { Cleanup } from "../base/cleanup.ts";
import type { Clock } from "../base/clock.ts";
import type { Environment } from "../base/environment.ts";
import type { Logger } from "../base/logger.ts";
import type { Config } from "../config/config.ts";
import { CompanionKeeper } from "../controller/daemons/companion/companion-keeper.ts";
import type { CompanionDaemon, CompanionReport } from "../controller/daemons/companion/port.ts";
import { personBusOf } from "../controller/daemons/companion/session-bus.ts";
import { DaemonChild } from "../controller/daemons/daemon-child.ts";

export interface OpenCompanion extends CompanionDaemon {
  start(): void;
  /** Where the system assistant answers now; null: nowhere, for the time being. */
  assistantIs(url: string | null): void;
  /** Begins to end it, and resolves when it has ended; the cleanup waits for that too. */
  end(): Promise<void>;
}

/** The companion that the configuration and the session want: looked after from `start` on, or none at all. */
export function openCompanion(options: {
  readonly config: Config;
  /** What it may know, and where its bus is. */
  readonly environment: Environment;
  /** The program that starts a Berth of this version, and its first arguments. */
  readonly program: readonly string[];
  readonly starting: Cleanup;
  readonly clock: Clock;
  readonly logger: Logger;
}): OpenCompanion {
  const { config, environment, starting, clock, logger } = options;
  const { companion, logFormat, logLevel } = config;
  if (!companion) return none("off", "it is off: --companion auto, with the assistant on");
  const openBus = personBusOf(environment);
  if (!openBus) return none("no_bus", "no session bus is in the environment");
  const keeper = new CompanionKeeper({
    openBus,
    startChild: ({ upstream, onReady }) =>
      new DaemonChild({
        command: [
          ...options.program,
          "assistant",
          "--user",
          `--upstream=${upstream}`,
          `--port=${companion.port}`,
          `--log-format=${logFormat}`,
          `--log-level=${logLevel}`,
          "--started-by=berth-up",
        ],
        environment: companionEnvironment(environment),
        clock,
        flags: { "--port": "--companion-port" },
        onReady,
      }),
    clock,
    logger,
  });
  let ended: Promise<void> | undefined;
  const end = () => (ended ??= keeper[Symbol.asyncDispose]());
  starting.defer(end);
  return {
    report: () => keeper.report(),
    start: () => keeper.start(),
    assistantIs: (url) => keeper.assistantIs(url),
    end,
  };
}

/** What stands there for an assistant is meant for the system's: its port, its models, its directory. */
function companionEnvironment(environment: Environment): Environment {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => !name.startsWith("BERTH_ASSISTANT")),
  );
}

function none(state: CompanionReport["state"], message: string): OpenCompanion {
  return {
    report: () => ({ state, url: null, pid: null, starts: 0, message }),
    start: () => {},
    assistantIs: () => {},
    end: async () => {},
  };
}
