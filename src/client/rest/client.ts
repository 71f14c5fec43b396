import { type Kind, plurals } from "../../resources/kinds.ts";
import type {
  CreatedToken,
  CreateTokenBody,
  LoginResponse,
  TokenList,
  TokenView,
} from "../../resources/wire/auth.ts";
import type {
  ApplyBody,
  ApplyResponse,
  CreateSecretBody,
  DeletedView,
  PatchSecretBody,
  PutSecretBody,
  ResourceList,
  ResourceView,
  SecretList,
  SecretView,
  TemplateList,
  TemplateView,
} from "../../resources/wire/resources.ts";
import type {
  HealthView,
  PruneResponse,
  SpecsGitView,
  SpecsView,
  SystemConfig,
  SystemInfo,
} from "../../resources/wire/system.ts";
import { appCalls } from "./app-calls.ts";
import { buildCalls } from "./build-calls.ts";
import { eventCalls } from "./event-calls.ts";
import { modelCalls } from "./model-calls.ts";
import { stackCalls } from "./stack-calls.ts";
import { type ClientOptions, encodeSegment, Transport } from "./transport.ts";
import { webhookCalls } from "./webhook-calls.ts";

export type Client = ReturnType<typeof createClient>;

/**
 * A client for all routes of the REST API. Calls reject with ApiError for errors of the server, with BerthError
 * `server_unreachable` if no server answers, and with the reason of an aborted signal.
 */
export function createClient(options: ClientOptions) {
  const transport = new Transport(options);
  const get = <T>(path: string, signal?: AbortSignal): Promise<T> =>
    transport.json<T>("GET", path, { signal });

  return {
    /** The origin of the server. */
    origin: transport.origin,
    apps: appCalls(transport),
    builds: buildCalls(transport),
    events: eventCalls(transport),
    models: modelCalls(transport),
    stacks: stackCalls(transport),
    webhooks: webhookCalls(transport),

    health: (signal?: AbortSignal): Promise<HealthView> => get("/api/health", signal),

    auth: {
      login: (password: string): Promise<LoginResponse> =>
        transport.json("POST", "/api/auth/login", { body: { password } }),
      /** Revokes the token of this client. */
      async logout(): Promise<void> {
        await transport.send("POST", "/api/auth/logout");
      },
      /** Returns the owner of this client's token. */
      whoami: (): Promise<TokenView> => get("/api/auth/whoami"),
      tokens: (): Promise<TokenList> => get("/api/auth/tokens"),
      createToken: (body: CreateTokenBody): Promise<CreatedToken> =>
        transport.json("POST", "/api/auth/tokens", { body }),
      /** Revokes a token, given its id or its name. */
      async revokeToken(id: string): Promise<void> {
        await transport.send("DELETE", `/api/auth/tokens/${encodeSegment(id)}`);
      },
    },

    templates: {
      list: (): Promise<TemplateList> => get("/api/templates"),
      get: (id: string): Promise<TemplateView> => get(`/api/templates/${encodeSegment(id)}`),
    },

    secrets: {
      list: (): Promise<SecretList> => get("/api/secrets"),
      get: (name: string): Promise<SecretView> => get(`/api/secrets/${encodeSegment(name)}`),
      create: (body: CreateSecretBody): Promise<SecretView> =>
        transport.json("POST", "/api/secrets", { body }),
      /** Creates a secret, or replaces all of its values. */
      put: (
        name: string,
        body: PutSecretBody,
        write: { force?: boolean } = {},
      ): Promise<SecretView> =>
        transport.json("PUT", `/api/secrets/${encodeSegment(name)}`, {
          body,
          query: forceQuery(write.force),
        }),
      /** Sets some values of a secret. A key whose value is null is deleted. */
      patch: (
        name: string,
        body: PatchSecretBody,
        write: { force?: boolean } = {},
      ): Promise<SecretView> =>
        transport.json("PATCH", `/api/secrets/${encodeSegment(name)}`, {
          body,
          query: forceQuery(write.force),
        }),
      delete: (name: string, write: { force?: boolean } = {}): Promise<DeletedView> =>
        transport.json("DELETE", `/api/secrets/${encodeSegment(name)}`, {
          query: forceQuery(write.force),
        }),
    },

    /** Calls for resources of all kinds, in the form of their manifests. */
    resources: {
      list: (kind: Kind, signal?: AbortSignal): Promise<ResourceList> =>
        get(`/api/resources/${plurals[kind]}`, signal),
      get: (kind: Kind, name: string, signal?: AbortSignal): Promise<ResourceView> =>
        get(`/api/resources/${plurals[kind]}/${encodeSegment(name)}`, signal),
      delete: (
        kind: Kind,
        name: string,
        write: { force?: boolean; deleteVolumes?: boolean; dryRun?: boolean } = {},
      ): Promise<DeletedView> =>
        transport.json("DELETE", `/api/resources/${plurals[kind]}/${encodeSegment(name)}`, {
          query: {
            ...forceQuery(write.force),
            delete_volumes: write.deleteVolumes === true ? true : undefined,
            dry_run: write.dryRun === true ? true : undefined,
          },
        }),
    },

    /** Applies all manifests or none. With `dry_run` it only returns the changes, as `berth diff` does. */
    apply: (body: ApplyBody, signal?: AbortSignal): Promise<ApplyResponse> =>
      transport.json("POST", "/api/apply", { body, signal }),

    specs: (): Promise<SpecsView> => get("/api/specs"),
    /** Syncs the specs repository now and returns the new state. */
    syncSpecs: (): Promise<SpecsGitView> => transport.json("POST", "/api/specs/sync"),
    /** Confirms the pending deletions of resources that are missing from the spec files. */
    prune: (): Promise<PruneResponse> =>
      transport.json("POST", "/api/specs/prune", { body: { confirm: true } }),

    system: {
      info: (signal?: AbortSignal): Promise<SystemInfo> => get("/api/system/info", signal),
      config: (): Promise<SystemConfig> => get("/api/system/config"),
    },

    /** Returns a consistent copy of the store as a stream of bytes. */
    async backup(signal?: AbortSignal): Promise<ReadableStream<Uint8Array>> {
      const response = await transport.send("POST", "/api/backup", {
        accept: "application/octet-stream",
        signal,
      });
      return response.body ?? new ReadableStream<Uint8Array>();
    },

    openapi: (): Promise<Record<string, unknown>> => get("/api/openapi.json"),
    async metrics(): Promise<string> {
      const response = await transport.send("GET", "/metrics", { accept: "text/plain" });
      return response.text();
    },
  };
}

function forceQuery(force: boolean | undefined): { force: true | undefined } {
  return { force: force === true ? true : undefined };
}
