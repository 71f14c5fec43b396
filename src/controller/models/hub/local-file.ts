import { access, constants, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { BerthError, getErrorCode } from "../../../base/errors.ts";
import { assertGgufFile } from "../gguf-file.ts";
import { parseGgufName } from "./gguf-name.ts";
import { hashModelKey } from "./model-key.ts";
import type { ResolvedFile, ResolvedModel } from "./port.ts";
import { listPartNames } from "./split-names.ts";

export interface LocalFileRequest {
  readonly path: string;
  /** The path as in the spec. Messages contain no other path. */
  readonly source: string;
  readonly sha256: string | undefined;
}

/** Resolves a file of this machine. If the file is one part of a split model, resolves the other parts too. */
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
    // The model's key depends on the size and the modification time of each file, because the expected sha256 stays the
    // same when a file changes.
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
  const title = source.endsWith(name) ? source : `${source}: part ${name}`;
  try {
    const found = await stat(path, { bigint: true });
    if (!found.isFile())
      throw new BerthError(
        "hub_not_found",
        `${title} is ${found.isDirectory() ? "a folder" : "not a file"}`,
        {
          hint: "set source to the path of the GGUF file itself",
        },
      );
    await access(path, constants.R_OK);
    await assertGgufFile(path, title);
    return found;
  } catch (error) {
    if (error instanceof BerthError) throw error;
    const code = getErrorCode(error);
    // The system's error is not set as the cause, because its message contains the resolved path.
    if (code === "EACCES" || code === "EPERM")
      throw new BerthError("hub_denied", `${title} cannot be read by the user that runs Berth`, {
        hint: "make the file readable for Berth's user, and its parent folders accessible",
      });
    throw new BerthError("hub_not_found", `${title}: the file does not exist on this machine`, {
      hint: "check the path; the file must be on the machine that Berth runs on",
    });
  }
}
