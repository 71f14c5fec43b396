import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyTypeProvider,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from "fastify";
import type { Registry } from "prom-client";
import type { Static, TSchema } from "typebox";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { ConfigValue } from "../config/config.ts";
import type { BuildControl } from "../controller/builds/port.ts";
import type { Ingress } from "../controller/ingress/port.ts";
import type { Webhooks } from "../controller/notifications/port.ts";
import type { ControlPlane } from "../controller/port.ts";
import type { Manifest } from "../resources/kinds.ts";
import type { Store, TokenScope } from "../store/store.ts";
import type { ChangeHub } from "./change-hub.ts";

export interface ApiDependencies {
  readonly store: Store;
  readonly control: ControlPlane;
  readonly builds: BuildControl;
  readonly ingress: Pick<Ingress, "mode" | "state">;
  readonly webhooks: Webhooks;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Where HTTP metrics are registered, and what /metrics shows. */
  readonly metrics: Registry;
  readonly version: string;
  readonly config: {
    readonly baseDomain: string;
    readonly dataDir: string;
    /** Secrets redacted, as `Config.values` has them. */
    readonly values: readonly ConfigValue[];
    /** Of the ingress; undefined where it has none. */
    readonly httpPort: number | undefined;
    readonly httpsPort: number | undefined;
    /** Largest source archive that is taken. */
    readonly uploadBytesMax: number;
  };
  /** The built-in catalog; Template resources of the store come on top of it. */
  readonly templates: readonly Manifest<"Template">[];
  /** The catalog of models; of two with one name the later one counts. */
  readonly models: readonly Manifest<"Model">[];
}

/** What every route gets. */
export interface ApiContext extends ApiDependencies {
  readonly hub: ChangeHub;
  /** Aborts when the server starts to close: waits and streams end then. */
  readonly closing: AbortSignal;
  readonly startedAtMs: number;
}

/** Whom a request comes from. `name` is the actor in the audit list. */
export interface ApiCaller {
  readonly name: string;
  readonly scope: TokenScope;
  readonly tokenId: string;
}

/** What a route asks of its caller. `loopback`: no token from this machine, `read` from elsewhere. */
export type Access = "public" | "loopback" | TokenScope;

declare module "fastify" {
  interface FastifyRequest {
    caller: ApiCaller | null;
  }
  interface FastifyContextConfig {
    access?: Access;
    /** The answer lasts as long as its reader does, so its duration says nothing. */
    isStream?: boolean;
  }
}

/** Makes types of the TypeBox schemas that stand on a route. */
interface TypeBoxTypes extends FastifyTypeProvider {
  readonly validator: this["schema"] extends TSchema ? Static<this["schema"]> : unknown;
  readonly serializer: this["schema"] extends TSchema ? Static<this["schema"]> : unknown;
}

export type Api = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypes
>;
