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
import type { Certificate } from "../base/http/tls-server.ts";
import type { Logger } from "../base/logger.ts";
import type { ConfigValue } from "../config/config.ts";
import type { BuildControl } from "../controller/builds/port.ts";
import type { Ingress } from "../controller/ingress/port.ts";
import type { Webhooks } from "../controller/notifications/port.ts";
import type { ControlPlane } from "../controller/port.ts";
import type { Manifest } from "../resources/kinds.ts";
import type { ReservedPort } from "../resources/reserved-ports.ts";
import type { Store, TokenScope } from "../store/store.ts";
import type { ChangeHub } from "./change-hub.ts";

export interface ApiDependencies {
  readonly store: Store;
  readonly control: ControlPlane;
  readonly builds: BuildControl;
  readonly ingress: Pick<Ingress, "mode" | "state" | "api">;
  readonly webhooks: Webhooks;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The registry of the HTTP metrics, which /metrics shows. */
  readonly metrics: Registry;
  readonly version: string;
  readonly config: {
    readonly baseDomain: string;
    /** The domain of the API. No App may use it. */
    readonly apiDomain: string | undefined;
    /** The ports of the machine on which Berth itself listens. No App may publish them. */
    readonly reservedPorts: readonly ReservedPort[];
    readonly dataDir: string;
    /** Addresses and networks of reverse proxies whose X-Forwarded-For header names the client. */
    readonly trustedProxies: readonly string[];
    /** The effective settings (`Config.values`). Secrets in them are redacted. */
    readonly values: readonly ConfigValue[];
    /** Port of the ingress; undefined if it does not serve HTTP. */
    readonly httpPort: number | undefined;
    readonly httpsPort: number | undefined;
    /** The size of the largest source archive that the API accepts. */
    readonly uploadBytesMax: number;
  };
  /** The certificate for HTTPS. If it is absent, the API speaks HTTP. */
  readonly certificate?: Certificate;
  /** The built-in catalog, which Template resources of the store extend. */
  readonly templates: readonly Manifest<"Template">[];
  /** The catalog of models. If two entries have the same name, the later one is used. */
  readonly models: readonly Manifest<"Model">[];
}

/** The dependencies of every route. */
export interface ApiContext extends ApiDependencies {
  readonly hub: ChangeHub;
  /** A signal that is aborted when the server starts to close. The abort ends waiting requests and event streams. */
  readonly closing: AbortSignal;
  readonly startedAtMs: number;
}

/** The authenticated caller of a request. `name` is the actor in the audit log. */
export interface ApiCaller {
  readonly name: string;
  readonly scope: TokenScope;
  readonly tokenId: string;
}

/**
 * The access that a route requires. `loopback`: requests from this machine need no token, and requests from other
 * machines need the scope `read`.
 */
export type Access = "public" | "loopback" | TokenScope;

declare module "fastify" {
  interface FastifyRequest {
    caller: ApiCaller | null;
  }
  interface FastifyContextConfig {
    access?: Access;
    /** If true, the response lasts until the client disconnects, so the duration of the request is not measured. */
    isStream?: boolean;
    /** The request body for the OpenAPI document, if the route parses the body itself. */
    documentedBody?: TSchema;
  }
}

/** Derives types from the TypeBox schemas of a route. */
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
