import { Readable } from "node:stream";
import multipart from "@fastify/multipart";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { BerthError } from "../../base/errors.ts";
import type { UploadedArchive } from "../../controller/builds/port.ts";
import { SourceDeployConfig } from "../../resources/wire/apps.ts";
import { UploadedArchiveView } from "../../resources/wire/builds.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { Actor, ApplyIntent } from "../../store/store.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { createAppAdmission } from "../app-admission.ts";
import { writeApp } from "../app-writes.ts";
import { CONFIG_BYTES_MAX, readDeployForm } from "../deploy-form.ts";
import { createArchivePatch } from "../deploy-patches.ts";
import { withFlatIssuePaths } from "../flat-issue-paths.ts";
import { archiveTooLargeError, limitBody } from "../limited-body.ts";
import { createRequestSignal, getActor } from "../request-parameters.ts";
import { AppWriteResponse, NoQuery, responses, WriteQueryParams } from "../route-schemas.ts";

/** The maximum size of the form without the archive. The limit of the archive is added. */
const FORM_BYTES_MAX = 1024 * 1024;
/** Placeholder for the digest until the archive has been uploaded. */
const UNKNOWN_DIGEST = "0".repeat(64);

const BinaryBody = Type.String({ format: "binary" });
const DeployForm = Type.Object({ config: SourceDeployConfig, source: BinaryBody }, closed);

/**
 * Routes for source archives, with or without a deploy. Each route is in its own Fastify scope, because the routes
 * parse bodies differently.
 */
export async function deployRoutes(api: Api, context: ApiContext): Promise<void> {
  const { uploadBytesMax } = context.config;

  await api.register(async (plugin: FastifyInstance) => {
    const scope: Api = plugin.withTypeProvider();
    await scope.register(multipart, {
      // The form parser's own limit is higher than the limit of the archive. `limitBody` enforces the limit of the
      // archive, with a better message.
      limits: {
        fileSize: uploadBytesMax + FORM_BYTES_MAX,
        files: 2,
        fields: 2,
        parts: 2,
        fieldSize: CONFIG_BYTES_MAX,
      },
    });

    scope.post(
      "/api/deploy",
      {
        config: { access: "write", documentedBody: DeployForm },
        bodyLimit: uploadBytesMax + FORM_BYTES_MAX,
        schema: {
          summary: "Deploy a source archive: create the app, or change it",
          description:
            "multipart/form-data, in any order: config (JSON with name, with port, which is null for a worker, and with any other field of an App's spec except image and source) and source (a gzipped tar archive).",
          tags: ["apps"],
          consumes: ["multipart/form-data"],
          querystring: WriteQueryParams,
          response: responses({
            200: AppWriteResponse,
            201: AppWriteResponse,
            202: AppWriteResponse,
          }),
        },
      },
      async (request, reply) => {
        assertLength(request, uploadBytesMax + FORM_BYTES_MAX);
        const signal = createRequestSignal(reply, context.closing);
        const actor = getActor(request);
        const force = request.query.force === true;
        const intentOf = (config: SourceDeployConfig, digest: string) =>
          createDeployIntent(config, digest, { actor, force });
        let config: SourceDeployConfig | undefined;
        let archive: UploadedArchive | undefined;
        try {
          for await (const part of readDeployForm(request)) {
            if (part.type === "config") {
              config = part.config;
              // Invalid requests are refused before the upload.
              await withFlatIssuePaths(() => validateIntent(intentOf(part.config, UNKNOWN_DIGEST)));
            } else {
              archive = await context.builds.upload(limitBody(part.stream, uploadBytesMax), signal);
            }
          }
          if (config === undefined || archive === undefined) {
            throw new BerthError("invalid_request", "the form needs the parts config and source");
          }
          const { name } = config;
          const intent = intentOf(config, archive.digest);
          const wouldDo = `deploy the archive ${archive.digest.slice(0, 12)} to app "${name}"`;
          const write = { intent, wouldDo, status: 202, wake: true } as const;
          return await withFlatIssuePaths(() =>
            writeApp(context, request, reply, write, request.query),
          );
        } finally {
          // The uploaded archive is deleted unless an App or a revision uses it. No App uses the archive if the write
          // failed, was a dry run, or ended because the client disconnected.
          if (archive) context.builds.discard(archive.digest);
        }
      },
    );
  });

  await api.register(async (plugin: FastifyInstance) => {
    const scope: Api = plugin.withTypeProvider();
    scope.removeAllContentTypeParsers();
    // Clients send various content types for .tar.gz, so every type is accepted, and the upload checks the content.
    scope.addContentTypeParser("*", (_request, payload, done) => done(null, payload));

    scope.put(
      "/api/archives",
      {
        config: { access: "write", documentedBody: BinaryBody },
        bodyLimit: uploadBytesMax,
        schema: {
          summary: "Upload a source archive (gzipped tar) for use in source.archive",
          description:
            "The body is the archive. Unused archives are removed after a while. Equal content has an equal digest.",
          tags: ["apps"],
          consumes: ["application/octet-stream"],
          querystring: NoQuery,
          response: responses({ 200: UploadedArchiveView }),
        },
      },
      async (request, reply) => {
        assertLength(request, uploadBytesMax);
        const { body } = request;
        // Without `destroyOnReturn: false`, a refused archive would destroy the connection before the response.
        const stream =
          body instanceof Readable ? body.iterator({ destroyOnReturn: false }) : Readable.from([]);
        const signal = createRequestSignal(reply, context.closing);
        return context.builds.upload(limitBody(stream, uploadBytesMax), signal);
      },
    );
  });

  function createDeployIntent(
    { name, ...fields }: SourceDeployConfig,
    digest: string,
    by: { readonly actor: Actor; readonly force: boolean },
  ): ApplyIntent<"App"> {
    return {
      kind: "App",
      name,
      manager: "api",
      mode: "merge",
      ...createArchivePatch(digest, fields, context.clock.now()),
      ...by,
    };
  }

  function validateIntent(intent: ApplyIntent<"App">): void {
    context.store.apply({ ...intent, dryRun: true }, createAppAdmission(context));
  }

  function assertLength(request: FastifyRequest, bytesMax: number): void {
    if (Number(request.headers["content-length"]) > bytesMax)
      throw archiveTooLargeError(uploadBytesMax);
  }
}
