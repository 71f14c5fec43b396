import { finished } from "node:stream/promises";
import multipart from "@fastify/multipart";
import { Type } from "typebox";
import { BerthError } from "../../base/errors.ts";
import { AppSpec } from "../../resources/app.ts";
import { Name, Port } from "../../resources/fields.ts";
import { closed } from "../../resources/wire/schema.ts";
import { AppWriteAnswer, answers, WriteQueryParams } from "../answers.ts";
import type { Api, ApiContext } from "../context.ts";
import { compileValidator } from "../schema-validation.ts";
import { parseStrictJson } from "../strict-json.ts";

const UPLOAD_BYTES_MAX = 512 * 1024 * 1024;
const CONFIG_BYTES_MAX = 64 * 1024;

const { image: _image, source: _source, ...specFields } = AppSpec.properties;

/** The part named `config`: name and port, and what else an App's spec may hold. */
const DeployConfig = Type.Object({ ...specFields, name: Name, port: Port }, closed);

/**
 * POST /api/deploy: a source archive. Everything about the request is checked; building it is not
 * there yet. In a scope of its own, because only this route takes multipart bodies.
 */
export async function deployRoutes(api: Api, context: ApiContext): Promise<void> {
  const fileSize = context.uploadBytesMax ?? UPLOAD_BYTES_MAX;
  const checkConfig = compileValidator(DeployConfig, "body");

  await api.register(async (scope) => {
    await scope.register(multipart, {
      throwFileSizeLimit: true,
      limits: { fileSize, files: 2, fields: 1, parts: 2, fieldSize: CONFIG_BYTES_MAX },
    });

    scope.post(
      "/api/deploy",
      {
        config: { access: "write" },
        bodyLimit: fileSize + 1024 * 1024,
        schema: {
          summary: "Deploy a source archive",
          description:
            "multipart/form-data: config (JSON with name and port) and source (a gzipped tar archive). Building is not there yet and answers 501.",
          tags: ["apps"],
          consumes: ["multipart/form-data"],
          querystring: WriteQueryParams,
          response: answers({ 202: AppWriteAnswer }),
        },
      },
      async (request) => {
        if (!request.isMultipart()) {
          throw new BerthError("unsupported_media_type", "the body is not multipart/form-data", {
            hint: "send the parts config (JSON) and source (a gzipped tar archive)",
          });
        }
        let hasConfig = false;
        let hasSource = false;
        for await (const part of request.parts()) {
          if (part.type === "file" && part.fieldname === "source") {
            hasSource = true;
            part.file.resume();
            await finished(part.file);
          } else if (part.fieldname === "config") {
            const text =
              part.type === "file" ? await readConfig(part.file) : Buffer.from(String(part.value));
            if (part.type === "field" && part.valueTruncated) throw configTooLarge();
            checkConfigPart(checkConfig, text);
            hasConfig = true;
          } else {
            throw new BerthError(
              "invalid_request",
              `unknown part ${JSON.stringify(part.fieldname.slice(0, 80))}; known parts: config, source`,
            );
          }
        }
        if (!hasConfig) throw new BerthError("invalid_request", 'missing part "config"');
        if (!hasSource) throw new BerthError("invalid_request", 'missing part "source"');
        throw new BerthError("not_implemented", "deploying from source is not there yet", {
          hint: "build an image and create the app with POST /api/apps",
        });
      },
    );
  });
}

/** Some clients send it as a file; it is no larger for that. */
async function readConfig(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    length += chunk.length;
    if (length > CONFIG_BYTES_MAX) {
      throw configTooLarge();
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function configTooLarge(): BerthError {
  return new BerthError("payload_too_large", "config: is larger than 64 KiB");
}

function checkConfigPart(check: ReturnType<typeof compileValidator>, text: Buffer): void {
  const { error } = check(parseStrictJson(text) ?? null);
  if (error) throw new BerthError("invalid_request", `config: ${error.message}`);
}
