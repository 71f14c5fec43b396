import { Type } from "typebox";
import { NotFoundError } from "../../base/errors.ts";
import { findNearest } from "../../base/spelling-suggestions.ts";
import { type Kind, kinds, plurals } from "../../resources/kinds.ts";
import { DeletedView, ResourceList, ResourceView } from "../../resources/wire/resources.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { getActor } from "../request-parameters.ts";
import { NoQuery, responses } from "../route-schemas.ts";
import { assertSecretUnused } from "../secret-users.ts";
import { resourceView } from "../views/resources.ts";

const KindParams = Type.Object({ kind: Type.String() }, closed);
const ResourceParams = Type.Object({ kind: Type.String(), name: Type.String() }, closed);

const DeleteQuery = Type.Object(
  {
    force: Type.Optional(Type.Boolean()),
    delete_volumes: Type.Optional(Type.Boolean()),
    dry_run: Type.Optional(Type.Boolean()),
  },
  closed,
);

/** Routes for resources of every kind. Requests and responses contain the resources in the form of their manifests. */
export function resourceRoutes(api: Api, context: ApiContext): void {
  const { store } = context;
  const tags = ["resources"];

  api.get(
    "/api/resources/:kind",
    {
      config: { access: "read" },
      schema: {
        summary: "List the resources of a kind, in the form of their manifests",
        tags,
        params: KindParams,
        querystring: NoQuery,
        response: responses({ 200: ResourceList }),
      },
    },
    async (request) => {
      const items = store.list(parseKind(request.params.kind)).map((item) => resourceView(item));
      return { items, total: items.length };
    },
  );

  api.get(
    "/api/resources/:kind/:name",
    {
      config: { access: "read" },
      schema: {
        summary: "Show one resource, in the form of its manifest",
        tags,
        params: ResourceParams,
        querystring: NoQuery,
        response: responses({ 200: ResourceView }),
      },
    },
    async (request) => {
      const kind = parseKind(request.params.kind);
      return resourceView(requireResource(kind, request.params.name));
    },
  );

  api.delete(
    "/api/resources/:kind/:name",
    {
      config: { access: "write" },
      schema: {
        summary: "Delete a resource",
        description:
          "Responds 200 if the resource is removed immediately, 202 if its containers are removed first, and 409 for a Secret in use without force.",
        tags,
        params: ResourceParams,
        querystring: DeleteQuery,
        response: responses({ 200: DeletedView, 202: DeletedView }),
      },
    },
    async (request, reply) => {
      const kind = parseKind(request.params.kind);
      const { name } = request.params;
      const { force, delete_volumes, dry_run } = request.query;
      const { uid } = requireResource(kind, name).metadata;
      if (kind === "Secret" && force !== true) assertSecretUnused(store, name);
      const after = store.delete(kind, name, {
        actor: getActor(request),
        manager: "api",
        force: force === true,
        deleteVolumes: delete_volumes === true,
        dryRun: dry_run === true,
      });
      const isHeld = after.metadata.finalizers.length > 0 && after.metadata.uid === uid;
      if (dry_run !== true) {
        context.control.wake(kind, name);
        if (isHeld) reply.code(202);
      }
      return { kind, name, state: isHeld ? ("deleting" as const) : ("deleted" as const) };
    },
  );

  function requireResource(kind: Kind, name: string) {
    const resource = store.get(kind, name);
    if (resource) return resource;
    throw new NotFoundError(`there is no ${kind} ${JSON.stringify(name.slice(0, 80))}`);
  }
}

/** Parses `apps`, `app` or `App`. Throws NotFoundError. */
function parseKind(text: string): Kind {
  const wanted = text.toLowerCase();
  const kind = kinds.find((known) => plurals[known] === wanted || known.toLowerCase() === wanted);
  if (kind) return kind;
  const names = kinds.map((known) => plurals[known]);
  const meant = findNearest(wanted.slice(0, 100), names);
  throw new NotFoundError(
    `there is no kind ${JSON.stringify(text.slice(0, 80))}`,
    meant === undefined ? `kinds are ${names.join(", ")}` : `did you mean "${meant}"?`,
  );
}
