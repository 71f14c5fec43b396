import { Type } from "typebox";
import { BerthError, InvalidSpecError, isAbortError } from "../../base/errors.ts";
import type { PlannedResource } from "../../controller/port.ts";
import type { Manifest } from "../../resources/kinds.ts";
import { isKind, type Resource } from "../../resources/resource.ts";
import { getStack, toStoredLabels } from "../../resources/stack.ts";
import { formatIssue, tryValidateManifest } from "../../resources/validate-manifest.ts";
import type { PlanView } from "../../resources/wire/apps.ts";
import type { ModelPlanView } from "../../resources/wire/models.ts";
import { ApplyBody, ApplyResponse } from "../../resources/wire/resources.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { ApplyResult } from "../../store/store.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { waitUntilReady } from "../app-writes.ts";
import { applyTogether } from "../apply-together.ts";
import { createRequestSignal, getActor, parseWaitTimeoutMs } from "../request-parameters.ts";
import { responses, writeQueryFields } from "../route-schemas.ts";
import { assertNoNewServerFolder } from "../server-paths.ts";
import { modelPlanView } from "../views/models.ts";
import { fieldChangeView, planView } from "../views/plans.ts";

const ApplyQuery = Type.Object({ ...writeQueryFields }, closed);

/** Registers POST /api/apply, which applies all of the given manifests or none. */
export function applyRoutes(api: Api, context: ApiContext): void {
  const { store, clock } = context;

  api.post(
    "/api/apply",
    {
      config: { access: "write" },
      schema: {
        summary: "Apply manifests: create what is missing, change what differs",
        description:
          "All or none: everything is validated before anything is written. With dry_run nothing is written, and each App and Model comes with its plan; the request is refused for the same reasons as without dry_run.",
        tags: ["resources"],
        body: ApplyBody,
        querystring: ApplyQuery,
        response: responses({ 200: ApplyResponse, 202: ApplyResponse }),
      },
    },
    async (request, reply) => {
      const { manager = "api" } = request.body;
      const isDryRun = request.body.dry_run === true || request.query.dry_run === true;
      const force = request.body.force === true || request.query.force === true;
      const timeoutMs = parseWaitTimeoutMs(request.query.timeout);
      const manifests = validateAll(request.body.manifests);
      const actor = getActor(request);
      // With `force`, a request takes over an App that another import or template owns, but only if the request
      // contains no other App. Then it is certain that the user meant this App.
      const takeOver = force && manifests.filter(({ kind }) => kind === "App").length === 1;
      const intents = manifests.map((manifest) => ({
        kind: manifest.kind,
        name: manifest.metadata.name,
        manager,
        actor,
        mode: "replace" as const,
        spec: manifest.spec,
        labels: toStoredLabels(manifest.metadata),
        annotations: manifest.metadata.annotations ?? {},
        force,
        takeOver,
      }));
      for (const manifest of manifests) {
        const { name } = manifest.metadata;
        if (isKind(manifest, "App")) {
          assertNoNewServerFolder({ ...manifest.spec }, store.get("App", name));
        }
      }
      const { results, planned } = applyTogether(context, intents, { isDryRun });
      const signal = createRequestSignal(reply, context.closing);
      const plans = isDryRun
        ? await Promise.all(planned.map(({ resource }) => planResource(resource, planned, signal)))
        : [];
      if (!isDryRun && request.query.wait === true) {
        const deadlineMs = clock.now() + timeoutMs;
        for (const { resource } of results) {
          if (!isKind(resource, "App")) continue;
          const leftMs = Math.max(0, deadlineMs - clock.now());
          const { generation } = resource.metadata;
          await waitUntilReady(context, reply, resource, generation, leftMs, 200);
          if (reply.statusCode === 202) break;
        }
      }
      return {
        dry_run: isDryRun,
        results: results.map((result, index) => ({
          kind: result.resource.kind,
          name: result.resource.metadata.name,
          stack: getStack(result.resource.metadata) ?? null,
          action: getApplyAction(result),
          generation: result.resource.metadata.generation,
          changes: result.changes.map((change) => fieldChangeView(change)),
          plan: plans[index]?.plan ?? null,
          model_plan: plans[index]?.modelPlan ?? null,
          plan_message: plans[index]?.message ?? null,
        })),
      };
    },
  );

  /**
   * Plans what the controller will do for a changed resource. If planning fails, for example because the engine is
   * unreachable, returns the reason as `message`, so that the response can still list the changed fields.
   */
  async function planResource(
    resource: Resource,
    alongside: readonly PlannedResource[],
    signal: AbortSignal,
  ): Promise<{ plan?: PlanView; modelPlan?: ModelPlanView; message?: string }> {
    const { control } = context;
    const { name, annotations } = resource.metadata;
    try {
      if (isKind(resource, "App")) {
        const { spec } = resource;
        const plan = await control.planApp(name, spec, signal, annotations, alongside);
        return { plan: planView(plan) };
      }
      if (!isKind(resource, "Model")) return {};
      const plan = await control.planModel(name, resource.spec, signal, alongside);
      return { modelPlan: modelPlanView(plan) };
    } catch (error) {
      if (!(error instanceof BerthError) || isAbortError(error)) throw error;
      return { message: error.message };
    }
  }
}

function getApplyAction(result: ApplyResult): "created" | "configured" | "unchanged" {
  if (result.created) return "created";
  return result.changes.length > 0 ? "configured" : "unchanged";
}

/** Validates the manifests and returns them. Throws one InvalidSpecError with all issues if any manifest is invalid. */
function validateAll(values: readonly unknown[]): Manifest[] {
  const manifests: Manifest[] = [];
  const lines: string[] = [];
  const issues = [];
  const seen = new Set<string>();
  for (const [index, value] of values.entries()) {
    const at = `manifests[${index}]`;
    const read = tryValidateManifest(value, {}, "json");
    if ("issues" in read) {
      issues.push(
        ...read.issues.map((issue) => ({ ...issue, path: `/manifests/${index}${issue.path}` })),
      );
      lines.push(...read.issues.map((issue) => `${at}: ${formatIssue(issue)}`));
      continue;
    }
    const { kind, metadata } = read.manifest;
    const key = `${kind} ${metadata.name}`;
    if (seen.has(key)) {
      const message = `there is more than one ${kind} "${metadata.name}"`;
      issues.push({ path: `/manifests/${index}`, message });
      lines.push(`${at}: ${message}`);
    }
    seen.add(key);
    manifests.push(read.manifest);
  }
  if (issues.length > 0) {
    throw new InvalidSpecError(`the manifests are not valid: ${lines[0]}`, issues);
  }
  return manifests;
}
