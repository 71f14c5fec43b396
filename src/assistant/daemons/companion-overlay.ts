import type { Cleanup } from "../../base/cleanup.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import { readPackageVersion } from "../../base/package-version.ts";
import type { SessionBus } from "../../dbus/port.ts";
import type { AgentService } from "../agent/port.ts";
import type { ToolRegistry } from "../agent/tool-manifest.ts";
import type { OpenBus } from "../bus/open-bus.ts";
import type { ContextService } from "../context/port.ts";
import { dataClasses } from "../data-class.ts";
import type { RoutedInference } from "../inference/routing/routed-inference.ts";
import type { InferenceService } from "../inference/service-port.ts";
import type { OpenLedger } from "../ledger/ledger.ts";
import { LocalAgentPass } from "../overlay/agent-pass/local-agent-pass.ts";
import { serveOverlay } from "../overlay/bus.ts";
import { Overlay } from "../overlay/overlay.ts";
import type { OverlayFacts } from "../overlay/overlay-dependencies.ts";
import { SessionBusUi } from "../overlay/ui/session-bus-ui.ts";
import type { CompanionRemote } from "./companion-remote.ts";

export interface CompanionOverlayDependencies {
  readonly bus: OpenBus;
  /** The daemon's name and version, for example `berth 0.1.0`, which the bus method Ping returns. */
  readonly daemon: string;
  readonly local: InferenceService;
  readonly routed: RoutedInference;
  readonly remote: CompanionRemote;
  readonly agent: AgentService;
  readonly registry: ToolRegistry;
  readonly context: ContextService;
  readonly ledger: OpenLedger;
  /** The connection on which the overlay calls the frontend. */
  readonly sessionBus: SessionBus;
  readonly httpPort: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Opens the overlay, which answers the user's queries with the help of the companion's other services, and exports it
 * on the bus.
 */
export function openCompanionOverlay(
  dependencies: CompanionOverlayDependencies,
  cleanup: Cleanup,
): Overlay {
  const { bus, local, routed, remote, agent, registry, context, ledger, clock, logger } =
    dependencies;
  const agentPass = new LocalAgentPass({ inference: local, agent, declarations: registry, logger });
  const overlay = new Overlay({
    inference: routed,
    routes: routed,
    context,
    remote: {
      missing: (classes) => remote.consent.missing(classes),
      addressOf: (id) => remote.providers.find(id)?.baseUrl,
    },
    agentPass,
    ui: new SessionBusUi(dependencies.sessionBus, (connection) =>
      bus.identifyConnection(connection),
    ),
    ledger,
    facts: createOverlayFacts(dependencies),
    clock,
    logger,
  });
  // The bus object is removed only after the overlay has closed, so that callers still receive the results of their
  // queries.
  cleanup.defer(serveOverlay({ bus, service: overlay, daemon: dependencies.daemon }));
  cleanup.use(agentPass);
  return cleanup.use(overlay);
}

function createOverlayFacts({
  local,
  remote,
  ledger,
  httpPort,
}: CompanionOverlayDependencies): OverlayFacts {
  return {
    version: readPackageVersion(),
    httpPort,
    ledger: () => ({ ok: ledger.state.ok, size: ledger.state.size }),
    consent: () => dataClasses.filter((scope) => remote.consent.isAllowed(scope)),
    providers: () =>
      remote.service
        .state()
        .providers.filter(({ credential }) => credential.present)
        .map(({ id }) => id),
    localModel: () => findDefaultModel(local),
  };
}

/**
 * Returns the id of the first local chat model. If there is only a base model, returns that one, so that the query fails
 * with the reason. Returns undefined if no model generates text. Rejects with `no_model` if the system instance that runs
 * the models cannot be reached.
 */
async function findDefaultModel(local: InferenceService): Promise<string | undefined> {
  const models = await local.models();
  const chosen =
    models.find(({ kind }) => kind === "chat") ?? models.find(({ kind }) => kind !== "embedding");
  return chosen?.id;
}
