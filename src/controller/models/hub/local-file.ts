import { access, constants, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { BerthError } from "../../../base/errors.ts";
import { parseGgufName } from "./gguf-name.ts";
import { hashModelKey } from "./model-key.ts";
import type { ResolvedFile, ResolvedModel } from "./port.ts";
import { listPartNames } from "./split-names.ts";

export interface LocalFileRequest {
  readonly path: string;
  /** As the spec has it: the only path that messages may show. */
  readonly source: string;
  readonly sha256: string | undefined;
}

/** What a file of this machine comes to, with the other parts beside it where it is one of several. */
export async function resolveLocalFile(request: LocalFileRequest): Promise<ResolvedModel> {
  const names = listPartNames(basename(request.path));
  const files: ResolvedFile[] = [];
  const states: unknown[] = [];
  for (const [index, name] of names.entries()) {
    const path = join(dirname(request.path), name);
    const { size, mtimeNs } = await statModelFile(path, name, request.source);
    states.push([path, String(size), String(mtimeNs)]);
    files.push({
      name,
      sizeBytes: Number(size),
      sha256: index === 0 ? (request.sha256 ?? null) : null,
      gitBlob: null,
      etag: null,
      location: { type: "local", path },
    });
  }
  return {
    // A digest that somebody wrote down says nothing of what the file holds now.
    key: hashModelKey(["local", request.sha256 ?? null, states]),
    commit: null,
    quantization: parseGgufName(files[0]?.name ?? "")?.quantization ?? null,
    files,
  };
}

async function statModelFile(
  path: string,
  name: string,
  source: string,
): Promise<{ readonly size: bigint; readonly mtimeNs: bigint }> {
  const title = source.endsWith(name) ? source : `${source}: its part ${name}`;
  try {
    const found = await stat(path, { bigint: true });
    if (!found.isFile())
      throw new BerthError(
        "hub_not_found",
        `${title} is ${found.isDirectory() ? "a folder" : "no file"}`,
        {
          hint: "write the path of the GGUF file itself",
        },
      );
    await access(path, constants.R_OK);
    return found;
  } catch (error) {
    if (error instanceof BerthError) throw error;
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    // Without the system's own error as the cause: its message holds the path as it stands here.
    if (code === "EACCES" || code === "EPERM")
      throw new BerthError("hub_denied", `${title} cannot be read by the user that runs Berth`, {
        hint: "let that user read the file, and enter the folders above it",
      });
    throw new BerthError("hub_not_found", `${title}: there is no such file on this machine`, {
      hint: "check the path; it is one of the machine that Berth runs on",
    });
  }
}
