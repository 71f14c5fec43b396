import { join } from "node:path";
import { BERTH_APPS_ID, berthAppsManifest } from "../../base/berth-tool-manifest.ts";
import type { Cleanup } from "../../base/cleanup.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import { packageRoot } from "../../base/package-root.ts";
import type { CompanionConfig } from "../../config/companion-config.ts";
import type { SessionBus } from "../../dbus/port.ts";
import { isToolDisabled } from "../agent/agent-rules.ts";
import { serveAgent } from "../agent/bus.ts";
import { Agent } from "../agent/calls/agent.ts";
import { ToolDiscovery } from "../agent/discover/tool-discovery.ts";
import { manifestDirectories } from "../agent/manifests/manifest-directories.ts";
import { ManifestRegistry } from "../agent/manifests/manifest-registry.ts";
import { BusServiceStarter } from "../agent/mcp/activation/bus-service-starter.ts";
import { type AppCommand, CommandStarter } from "../agent/mcp/activation/command-starter.ts";
import { StarterChain } from "../agent/mcp/activation/starter-chain.ts";
import { SystemdUnitStarter } from "../agent/mcp/activation/systemd-unit-starter.ts";
import { McpApps } from "../agent/mcp/mcp-apps.ts";
import { defaultMcpLimits } from "../agent/mcp/mcp-limits.ts";
import type { Bus } from "../bus/port.ts";
import type { ContextEmbedder } from "../context/port.ts";
import type { Ledger } from "../ledger/port.ts";
import type { LiveSettings } from "./live-settings.ts";

export interface CompanionAgentDependencies {
  readonly bus: Bus;
  /** The daemon's name and version, for example `berth 0.1.0`, which the bus method Ping returns. */
  readonly daemon: string;
  readonly ledger: Ledger;
  /** The bus connection through which the agent starts the D-Bus services of apps. */
  readonly sessionBus: SessionBus;
  /**
   * The embedder for tool discovery, which finds tools even if a query has no word in common with their descriptions.
   */
  readonly embedder: ContextEmbedder;
  readonly settings: LiveSettings;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Returns the directory of the apps' sockets. */
export function appsDir(config: CompanionConfig): string {
  return join(config.runtimeDir, "apps");
}

/** Opens the agent with its tool registry, its apps and the user's rules, and exports it on the bus. */
export async function openCompanionAgent(
  config: CompanionConfig,
  dependencies: CompanionAgentDependencies,
  cleanup: Cleanup,
): Promise<{ readonly agent: Agent; readonly registry: ManifestRegistry }> {
  const { bus, daemon, ledger, sessionBus, embedder, settings, clock, logger } = dependencies;
  const registry = cleanup.use(
    new ManifestRegistry({
      directories: manifestDirectories(config.environment, config.homeDirectory),
      builtIn: [berthAppsManifest],
      clock,
      logger,
    }),
  );
  await registry.start();
  const ownApps = cleanup.use(
    new CommandStarter({ commands: new Map([createBerthToolsCommand(config)]), clock, logger }),
  );
  const starterOptions = {
    bus: () => sessionBus,
    clock,
    timeoutMs: defaultMcpLimits.activationTimeoutMs,
  };
  const apps = cleanup.use(
    new McpApps({
      socketsDir: appsDir(config),
      activator: new StarterChain([
        ownApps,
        new BusServiceStarter(starterOptions),
        new SystemdUnitStarter(starterOptions),
      ]),
      clock,
      logger,
    }),
  );
  const isDisabled = (appId: string, tool: string) =>
    isToolDisabled(settings.current(), appId, tool);
  const discovery = cleanup.use(
    new ToolDiscovery({ registry, embedder, isDisabled, clock, logger }),
  );
  const agent = await Agent.open({
    registry,
    apps,
    ledger,
    rules: () => settings.current(),
    discover: (query, signal) => discovery.discover(query, signal),
    discoverState: () => discovery.state(),
    dir: config.dataDir,
    clock,
    logger,
  });
  // The bus object is removed only after the agent has closed, so that callers still receive the results of their
  // calls.
  cleanup.defer(serveAgent({ bus, service: agent, daemon }));
  cleanup.use(agent);
  return { agent, registry };
}

/**
 * Returns the command that serves Berth's own tools. The command starts this program a second time; the new process
 * exits together with the daemon.
 */
function createBerthToolsCommand(config: CompanionConfig): [string, AppCommand] {
  const program = join(packageRoot, "bin/berth");
  const stateDir = join(config.dataDir, "tools");
  return [
    BERTH_APPS_ID,
    {
      argv: [
        process.execPath,
        program,
        "tools",
        "serve",
        "--until-input-ends",
        "--state-dir",
        stateDir,
      ],
      environment: buildToolServerEnvironment(config),
    },
  ];
}

/**
 * Returns the daemon's environment with XDG_RUNTIME_DIR added. The tools need this variable for their socket and to
 * find the server.
 */
function buildToolServerEnvironment(config: CompanionConfig): Record<string, string> {
  const set = Object.entries(config.environment).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  return { ...Object.fromEntries(set), XDG_RUNTIME_DIR: join(config.runtimeDir, "..") };
}
