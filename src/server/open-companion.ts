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
  /** Sets the URL of the system assistant; null means that it does not answer now. */
  setUpstream(url: string | null): void;
  /** Ends the companion, and resolves when it has ended. The Cleanup `options.starting` also calls this method. */
  end(): Promise<void>;
}

/**
 * Creates the supervisor of the companion; `start` starts the companion. The supervisor is inactive if the companion is
 * turned off or there is no session bus.
 */
export function openCompanion(options: {
  readonly config: Config;
  /** The environment of the companion, which names its session bus. */
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
    return createInactiveCompanion(
      "off",
      "the companion is off; to start it, set --companion auto and turn the assistant on",
    );
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

/**
 * Returns the environment without the settings of the system assistant, such as its port, its models and its directory.
 */
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
