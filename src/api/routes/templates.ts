import { Type } from "typebox";
import { NotFoundError } from "../../base/errors.ts";
import { findNearest } from "../../base/spelling-suggestions.ts";
import { isKind, ORIGIN_ANNOTATION } from "../../resources/resource.ts";
import { toStoredLabels } from "../../resources/stack.ts";
import { renderTemplate } from "../../resources/template-render.ts";
import { AppDetails, FromTemplateBody } from "../../resources/wire/apps.ts";
import { TemplateList, TemplateView } from "../../resources/wire/resources.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { Actor, ApplyResult, FieldAuthor, Store } from "../../store/store.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { planAppWrite, respondToWrite } from "../app-writes.ts";
import { applyTogether } from "../apply-together.ts";
import { getActor, parseWaitTimeoutMs } from "../request-parameters.ts";
import { AppWriteResponse, NoQuery, responses, WriteQueryParams } from "../route-schemas.ts";
import { assertNoNewServerFolder } from "../server-paths.ts";
import { findTemplate, listTemplates } from "../template-catalog.ts";
import { templateView } from "../views/resources.ts";

function findApp(
  results: readonly ApplyResult[],
  name: string,
): Pick<ApplyResult<"App">, "resource" | "changes"> | undefined {
  for (const { resource, changes } of results)
    if (isKind(resource, "App") && resource.metadata.name === name) return { resource, changes };
  return undefined;
}

/**
 * Looks for a field of the template that no writer with the scope `admin` has set or confirmed. Returns the author of
 * that field; undefined if there is no such field.
 */
function findTemplateWriter(store: Store, template: string): FieldAuthor | undefined {
  const [unchecked] = store.listUncheckedFields("Template", template);
  return unchecked && { name: unchecked.author ?? "an unknown writer", scope: "write" };
}

/**
 * Limits the creation of an app to what the writer of its template may do, even if an administrator creates the app.
 */
function limitToWriter(caller: Actor, author: FieldAuthor, template: string) {
  if (caller.scope !== "admin") return { actor: caller, author };
  const adminHint = `ask an administrator to write the template "${template}" again: ${author.name} wrote it`;
  return { actor: { ...caller, scope: author.scope, adminHint }, author };
}

export function templateRoutes(api: Api, context: ApiContext): void {
  const { store } = context;

  api.get(
    "/api/templates",
    {
      config: { access: "public" },
      schema: {
        summary: "List the catalog from which apps are created",
        description: "Needs no token.",
        tags: ["templates"],
        querystring: NoQuery,
        response: responses({ 200: TemplateList }),
      },
    },
    async () => {
      const templates = listTemplates(context).map(({ template, isBuiltIn }) =>
        templateView(template, isBuiltIn),
      );
      return { templates, total: templates.length };
    },
  );

  api.get(
    "/api/templates/:id",
    {
      config: { access: "public" },
      schema: {
        summary: "One entry of the catalog",
        tags: ["templates"],
        params: Type.Object({ id: Type.String() }, closed),
        querystring: NoQuery,
        response: responses({ 200: TemplateView }),
      },
    },
    async (request) => {
      const { template, isBuiltIn } = requireTemplate(request.params.id);
      return templateView(template, isBuiltIn);
    },
  );

  api.post(
    "/api/apps/from-template",
    {
      config: { access: "write" },
      schema: {
        summary: "Create an app from a template",
        description:
          "Creates the app, the companions that the template declares and the Secrets of its parameters, all or none. The response lists them under created. If the app exists, the request is refused unless it has force; companions and Secrets must be new.",
        tags: ["templates"],
        body: FromTemplateBody,
        querystring: WriteQueryParams,
        response: responses({ 200: AppWriteResponse, 201: AppDetails, 202: AppDetails }),
      },
    },
    async (request, reply) => {
      const { template_id, name, parameters = {} } = request.body;
      const { template, isBuiltIn } = requireTemplate(template_id);
      const timeoutMs = parseWaitTimeoutMs(request.query.timeout);
      const { manifests } = renderTemplate(template.spec, { name, parameters });
      const caller = getActor(request);
      const writer = isBuiltIn ? undefined : findTemplateWriter(store, template_id);
      const { actor, author } = writer
        ? limitToWriter(caller, writer, template_id)
        : { actor: caller };
      const force = request.query.force === true;
      const intents = manifests.map((manifest) => ({
        kind: manifest.kind,
        name: manifest.metadata.name,
        manager: "api",
        actor,
        ...(author ? { author } : {}),
        mode: "replace" as const,
        spec: manifest.spec,
        labels: toStoredLabels(manifest.metadata),
        ...(manifest.kind === "App"
          ? { annotations: { [ORIGIN_ANNOTATION]: `template:${template_id}` } }
          : {}),
        ...(force && manifest.kind === "App" && manifest.metadata.name === name
          ? { force, takeOver: true }
          : { createOnly: true }),
      }));
      for (const { kind, spec } of intents) {
        if (kind === "App") assertNoNewServerFolder({ ...spec }, undefined);
      }
      const isDryRun = request.query.dry_run === true;
      const { results, planned } = applyTogether(context, intents, { isDryRun });
      const main = findApp(results, name);
      if (!main) throw new NotFoundError(`the template ${template_id} contains no app "${name}"`);
      if (isDryRun) {
        const others = planned.filter(({ resource }) => resource !== main.resource);
        const also = others.map(({ resource: { kind, metadata } }) => `${kind} ${metadata.name}`);
        const wouldDo = `create app "${name}"${also.length === 0 ? "" : ` and ${also.join(", ")}`}`;
        return planAppWrite(context, reply, { ...main, wouldDo }, planned);
      }
      const app = store.get("App", name) ?? main.resource;
      const waitMs = request.query.wait === true ? timeoutMs : null;
      const details = await respondToWrite(context, reply, app, 201, waitMs);
      return {
        ...details,
        created: intents.map((intent) => ({ kind: intent.kind, name: intent.name })),
      };
    },
  );

  function requireTemplate(id: string) {
    const found = findTemplate(context, id);
    if (found) return found;
    const known = listTemplates(context).map(({ template }) => template.metadata.name);
    const meant = findNearest(id.slice(0, 100), known);
    throw new NotFoundError(
      `there is no template ${JSON.stringify(id.slice(0, 80))}`,
      meant === undefined ? "see GET /api/templates" : `did you mean "${meant}"?`,
    );
  }
}
