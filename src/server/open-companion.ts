import type { Cleanup } from "../base/cleanup.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { Environment } from "../base/process-environment.ts";
import type { Config } from "../config/config.ts";
import { createBusOpener } from "../controller/daemons/companion/companion-bus.ts";
import { CompanionSupervisor } from "../controller/daemons/companion/companion-supervisor.ts";
import type { CompanionDaemon, CompanionReport } from "../controller/daemons/companion/port.ts";
import { DaemonChild } from "../controller/daemons/daemon-child.ts";

export interface CompanionHandle extends CompanionDaemon {
  start(): void;
  /** Where the system assistant answers now; null: nowhere, for the time being. */
  setUpstream(url: string | null): void;
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
}): CompanionHandle {
  const { config, environment, starting, clock, logger } = options;
  const { companion, logFormat, logLevel } = config;
  if (!companion)
    return createInactiveCompanion("off", "it is off: --companion auto, with the assistant on");
  const openBus = createBusOpener(environment);
  if (!openBus) return createInactiveCompanion("no_bus", "no session bus is in the environment");
  const supervisor = new CompanionSupervisor({
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
  const end = () => (ended ??= supervisor[Symbol.asyncDispose]());
  starting.defer(end);
  return {
    report: () => supervisor.report(),
    start: () => supervisor.start(),
    setUpstream: (url) => supervisor.setUpstream(url),
    end,
  };
}

/** What stands there for an assistant is meant for the system's: its port, its models, its directory. */
function companionEnvironment(environment: Environment): Environment {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => !name.startsWith("BERTH_ASSISTANT")),
  );
}

function createInactiveCompanion(
  state: CompanionReport["state"],
  message: string,
): CompanionHandle {
  return {
    report: () => ({ state, url: null, pid: null, starts: 0, message }),
    start: () => {},
    setUpstream: () => {},
    end: async () => {},
  };
}
