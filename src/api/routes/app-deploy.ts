import { timestamp } from "../../base/clock.ts";
import { BerthError, ConflictError, NotFoundError } from "../../base/errors.ts";
import { RETRIED_AT_ANNOTATION, type Resource } from "../../resources/resource.ts";
import { DeployBody, RollbackBody } from "../../resources/wire/apps.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { requireApp, writeApp } from "../app-writes.ts";
import { createGitPatch, createImagePatch, createRedeployPatch } from "../deploy-patches.ts";
import { withFlatIssuePaths } from "../flat-issue-paths.ts";
import { getActor } from "../request-parameters.ts";
import {
  createImageHold,
  createRollbackPatch,
  createSourceHold,
  explainMissingTarget,
  findRollbackTarget,
} from "../rollback.ts";
import { appWriteResponses, NameParams, WriteQueryParams } from "../route-schemas.ts";

/** Routes that deploy another version of an app: an image, a repository or an earlier revision. */
export function appDeployRoutes(api: Api, context: ApiContext): void {
  const { store, clock } = context;

  api.post(
    "/api/apps/:name/deploy",
    {
      config: { access: "write" },
      schema: {
        summary: "Deploy an image, or a git repository, to an app",
        description:
          "The body has either image or git. Without either, the current image or source of the app is resolved again; if the tag now means another image, that is a new revision. Fields missing from the object git get their defaults.",
        tags: ["apps"],
        params: NameParams,
        body: DeployBody,
        querystring: WriteQueryParams,
        response: appWriteResponses,
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const app = requireApp(context, name);
      const { change, what } = createDeployPatch(app, request.body ?? {}, clock.now());
      const intent = {
        kind: "App",
        name,
        manager: "api",
        actor: getActor(request),
        mode: "merge",
        ...change,
        force: request.query.force === true,
        updateOnly: true,
      } as const;
      const wouldDo = `deploy ${what} to app "${name}"`;
      const write = { intent, wouldDo, status: 202, wake: true } as const;
      return withFlatIssuePaths(() => writeApp(context, request, reply, write, request.query));
    },
  );

  api.post(
    "/api/apps/:name/rollback",
    {
      config: { access: "write" },
      schema: {
        summary: "Go back to an earlier revision",
        description:
          "Without a revision, the app goes back to the last stable revision before the current one. Whether the app runs, and with how many replicas, stays as it is. Until the next deploy, the app keeps the image of that revision and, if it has a source, its commit.",
        tags: ["apps"],
        params: NameParams,
        body: RollbackBody,
        querystring: WriteQueryParams,
        response: appWriteResponses,
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const app = requireApp(context, name);
      const revisions = store.revisions.list(name);
      const asked = request.body?.revision;
      const target = findRollbackTarget(app, revisions, asked, store);
      if (target === undefined) {
        if (asked === undefined) {
          throw new ConflictError("wrong_state", `app "${name}" has no earlier stable revision`, {
            hint: explainMissingTarget(app, revisions, store),
          });
        }
        throw new NotFoundError(
          `app "${name}" has no revision ${asked}`,
          `the kept revisions are: ${revisions.map((revision) => revision.number).join(", ") || "none"}`,
        );
      }
      const intent = {
        kind: "App",
        name,
        manager: "api",
        actor: getActor(request),
        // The user who requests the rollback has not reviewed the fields of the earlier revision. So admission checks
        // them with the scope of that revision's author.
        ...(target.scope === "admin"
          ? {}
          : { author: { name: target.actor, scope: target.scope } }),
        mode: "merge",
        spec: createRollbackPatch(app.spec, target.spec),
        annotations: {
          ...createSourceHold(app, target, store),
          ...createImageHold(app, target),
          // A quarantined revision is retried only if the user requests it. A rollback to the revision is such a
          // request.
          ...(target.state === "quarantined"
            ? { [RETRIED_AT_ANNOTATION]: timestamp(clock.now()) }
            : {}),
        },
        force: request.query.force === true,
        updateOnly: true,
      } as const;
      const wouldDo = `roll app "${name}" back to revision ${target.number}`;
      const write = { intent, wouldDo, status: 202, wake: true } as const;
      return withFlatIssuePaths(() => writeApp(context, request, reply, write, request.query));
    },
  );
}

function createDeployPatch(app: Resource<"App">, { image, git }: DeployBody, nowMs: number) {
  if (image !== undefined && git !== undefined) {
    throw new BerthError("invalid_request", "set either image or git, not both");
  }
  if (image !== undefined) return { change: createImagePatch(image, nowMs), what: image };
  if (git !== undefined) return { change: createGitPatch(git, nowMs), what: git.url };
  const { source, image: current } = app.spec;
  if (source === undefined && current === undefined)
    throw new BerthError("invalid_request", "set image or git: the app has no source", {
      hint: `app "${app.metadata.name}" has neither a source nor an image`,
    });
  return {
    change: createRedeployPatch(nowMs),
    what: current ?? "the newest version of its source",
  };
}
