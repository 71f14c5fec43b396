import type { FastifyRequest } from "fastify";
import { NotFoundError } from "../../base/errors.ts";
import type { Resource } from "../../resources/resource.ts";
import {
  CreateSecretBody,
  DeletedView,
  PatchSecretBody,
  PutSecretBody,
  SecretList,
  SecretView,
} from "../../resources/wire/resources.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { getActor } from "../request-parameters.ts";
import { ForceQuery, NameParams, NoQuery, responses } from "../route-schemas.ts";
import { assertSecretUnused } from "../secret-users.ts";
import { secretView } from "../views/resources.ts";

/** Routes for Secrets. Responses contain keys only, never values. */
export function secretRoutes(api: Api, context: ApiContext): void {
  const { store } = context;
  const tags = ["secrets"];

  const requireSecret = (name: string): Resource<"Secret"> => {
    const secret = store.get("Secret", name);
    if (!secret) throw new NotFoundError(`there is no secret ${JSON.stringify(name.slice(0, 80))}`);
    return secret;
  };

  api.get(
    "/api/secrets",
    {
      config: { access: "read" },
      schema: {
        summary: "List secrets: their names and keys",
        tags,
        querystring: NoQuery,
        response: responses({ 200: SecretList }),
      },
    },
    async () => {
      const secrets = store.list("Secret").map((secret) => secretView(secret));
      return { secrets, total: secrets.length };
    },
  );

  api.get(
    "/api/secrets/:name",
    {
      config: { access: "read" },
      schema: {
        summary: "Show one secret: its keys",
        tags,
        params: NameParams,
        querystring: NoQuery,
        response: responses({ 200: SecretView }),
      },
    },
    async (request) => secretView(requireSecret(request.params.name)),
  );

  api.post(
    "/api/secrets",
    {
      config: { access: "write" },
      schema: {
        summary: "Create a secret",
        tags,
        body: CreateSecretBody,
        querystring: NoQuery,
        response: responses({ 201: SecretView }),
      },
    },
    async (request, reply) => {
      const { name, ...spec } = request.body;
      const intent = createIntentBase(request, name, false);
      const { resource } = store.apply({ ...intent, mode: "replace", spec, createOnly: true });
      reply.code(201);
      return secretView(resource);
    },
  );

  api.put(
    "/api/secrets/:name",
    {
      config: { access: "write" },
      schema: {
        summary: "Create a secret, or replace all of its values",
        tags,
        params: NameParams,
        body: PutSecretBody,
        querystring: ForceQuery,
        response: responses({ 200: SecretView, 201: SecretView }),
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const intent = createIntentBase(request, name, request.query.force);
      const known = store.get("Secret", name);
      // A write in mode `replace` would keep keys of other managers. So the write merges. To remove
      // the keys that are missing in the body, it sets their values to null.
      const gone = Object.keys(known?.spec.data ?? {})
        .filter((key) => !Object.hasOwn(request.body.data, key))
        .map((key) => [key, null] as const);
      const spec = known
        ? {
            type: null,
            ...request.body,
            data: { ...request.body.data, ...Object.fromEntries(gone) },
          }
        : request.body;
      const { resource, created } = store.apply({
        ...intent,
        mode: known ? "merge" : "replace",
        spec,
      });
      reply.code(created ? 201 : 200);
      return secretView(resource);
    },
  );

  api.patch(
    "/api/secrets/:name",
    {
      config: { access: "write" },
      schema: {
        summary: "Set values of a secret; null removes the key",
        tags,
        params: NameParams,
        body: PatchSecretBody,
        querystring: ForceQuery,
        response: responses({ 200: SecretView }),
      },
    },
    async (request) => {
      const { name } = request.params;
      requireSecret(name);
      const intent = createIntentBase(request, name, request.query.force);
      const { resource } = store.apply({
        ...intent,
        mode: "merge",
        spec: { data: request.body.data },
        updateOnly: true,
      });
      return secretView(resource);
    },
  );

  api.delete(
    "/api/secrets/:name",
    {
      config: { access: "write" },
      schema: {
        summary: "Delete a secret",
        description: "Responds 409 if an app or a model uses the Secret, unless force is given.",
        tags,
        params: NameParams,
        querystring: ForceQuery,
        response: responses({ 200: DeletedView }),
      },
    },
    async (request) => {
      const { name } = request.params;
      requireSecret(name);
      const { actor, manager, force } = createIntentBase(request, name, request.query.force);
      if (!force) assertSecretUnused(store, name);
      store.delete("Secret", name, { actor, manager, force });
      return { kind: "Secret" as const, name, state: "deleted" as const };
    },
  );
}

function createIntentBase(request: FastifyRequest, name: string, force: boolean | undefined) {
  return {
    kind: "Secret",
    name,
    manager: "api",
    actor: getActor(request),
    force: force === true,
  } as const;
}
