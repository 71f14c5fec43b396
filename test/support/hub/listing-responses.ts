import type { Repository, RepositoryFile } from "./repository.ts";

/**
 * Returns the response for `/api/models/...`. As on the real hub, it includes file sizes and digests only if `blobs`
 * is set.
 */
export function modelInfo(
  repository: Repository,
  sha: string,
  files: readonly RepositoryFile[],
  blobs: boolean,
): unknown {
  return {
    _id: "621ffdc036468d709f17434d",
    id: repository.id,
    modelId: repository.id,
    author: repository.id.split("/")[0],
    sha,
    lastModified: "2025-01-01T00:00:00.000Z",
    private: repository.private,
    gated: repository.gated,
    disabled: repository.disabled,
    downloads: 1,
    likes: 0,
    tags: ["gguf"],
    siblings: files.map((file) =>
      blobs
        ? {
            rfilename: file.name,
            size: file.content.sizeBytes,
            blobId: file.oid,
            ...(file.lfs && {
              lfs: {
                sha256: file.content.sha256,
                size: file.content.sizeBytes,
                pointerSize: file.pointerBytes,
              },
            }),
          }
        : { rfilename: file.name },
    ),
    spaces: [],
    createdAt: "2025-01-01T00:00:00.000Z",
  };
}

/** Returns an entry of `/api/models/.../tree/...`, in which the digest of an LFS object is its oid. */
export function treeEntry(file: RepositoryFile): unknown {
  return {
    type: "file",
    oid: file.oid,
    size: file.content.sizeBytes,
    path: file.name,
    ...(file.lfs && {
      lfs: {
        oid: file.content.sha256,
        size: file.content.sizeBytes,
        pointerSize: file.pointerBytes,
      },
    }),
  };
}
