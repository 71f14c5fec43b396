import type { Cleanup } from "../base/cleanup.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import { packageVersion } from "../base/package-version.ts";
import type { SessionBus } from "../base/session-bus/port.ts";
import type { ToolRegistry } from "./agent/manifest.ts";
import type { AgentService } from "./agent/port.ts";
import type { CompanionRemote } from "./companion-remote.ts";
import type { ContextService } from "./context/port.ts";
import { dataClasses } from "./data-class.ts";
import type { RoutedInference } from "./inference/routing/routed-inference.ts";
import type { InferenceService } from "./inference/service-port.ts";
import type { OpenLedger } from "./ledger/ledger.ts";
import { LocalAgentPass } from "./overlay/agent-pass/local-agent-pass.ts";
import type { OverlayFacts } from "./overlay/options.ts";
import { Overlay } from "./overlay/overlay.ts";
import { SessionBusUi } from "./overlay/ui/session-bus-ui.ts";

export interface CompanionOverlayParts {
  readonly local: InferenceService;
  readonly routed: RoutedInference;
  readonly remote: CompanionRemote;
  readonly agent: AgentService;
  readonly registry: ToolRegistry;
  readonly context: ContextService;
  readonly ledger: OpenLedger;
  /** Calls the frontend. */
  readonly sessionBus: SessionBus;
  readonly httpPort: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A person's questions: made of all the other rooms, and known to none of them. */
export function openCompanionOverlay(parts: CompanionOverlayParts, starting: Cleanup): Overlay {
  const { local, routed, remote, agent, registry, context, ledger, clock, logger } = parts;
  const agentPass = starting.use(
    new LocalAgentPass({ inference: local, agent, declarations: registry, logger }),
  );
  return starting.use(
    new Overlay({
      inference: routed,
      routes: routed,
      context,
      remote: {
        missing: (classes) => remote.consent.missing(classes),
        knows: (id) => remote.providers.find(id) !== undefined,
      },
      agentPass,
      ui: new SessionBusUi(parts.sessionBus),
      ledger,
      facts: factsOf(parts),
      clock,
      logger,
    }),
  );
}

function factsOf({ local, remote, ledger, httpPort }: CompanionOverlayParts): OverlayFacts {
  return {
    version: packageVersion(),
    httpPort,
    ledger: () => ({ ok: ledger.state.ok, size: ledger.state.size }),
    consent: () => dataClasses.filter((scope) => remote.consent.isAllowed(scope)),
    providers: () =>
      remote.service
        .state()
        .providers.filter(({ credential }) => credential.present)
        .map(({ id }) => id),
    localModel: async () => {
      const [model] = await local.models().catch(() => []);
      return model?.id;
    },
  };
}
