/**
 * Reads git repositories. Errors are BerthErrors: `git_unreachable` (no answer, or an interrupted one: worth another
 * try), `git_denied` (missing or wrong credentials), `git_not_found` (no such repository, branch, tag, commit or path),
 * `payload_too_large` (over `limits`), `archive_invalid` (the commit has names or links that git itself would refuse),
 * `disk_full`. No message contains a credential, or user and password of a URL.
 */
export interface GitClient {
  /**
   * Resolves `ref`, which is a branch, a tag or a commit, to its current commit (40 hexadecimal digits). If `ref` is
   * undefined, resolves the remote's HEAD.
   */
  resolve(repository: GitRepository, ref: string | undefined, signal: AbortSignal): Promise<string>;
  /**
   * Writes the files of one commit into the empty folder `dir`, without history and without `.git`. `ref` is the ref
   * that the commit was resolved from. It is needed for servers that do not send a commit by its hash. Nothing in the
   * repository can create a file outside `dir`: links are written as links, and never followed.
   */
  checkout(
    repository: GitRepository,
    what: { readonly commit: string; readonly ref: string | undefined },
    dir: string,
    limits: SourceLimits,
    signal: AbortSignal,
  ): Promise<GitCheckout>;
}

export interface GitRepository {
  /** The address of the repository: `https://`, `http://`, `ssh://` or `user@host:path`; never a local path. */
  readonly url: string;
  readonly credential?: GitCredential | undefined;
}

export type GitCredential =
  | { readonly type: "token"; readonly username?: string | undefined; readonly token: string }
  | {
      readonly type: "sshKey";
      readonly privateKey: string;
      /** The lines of a known_hosts file; without them the first key of a host is trusted and kept. */
      readonly knownHosts?: string | undefined;
    };

export interface SourceLimits {
  readonly bytesMax: number;
  readonly filesMax: number;
}

export interface GitCheckout {
  /** The paths of submodules, which are not fetched. The builder writes them to its log. */
  readonly submodules: readonly string[];
  readonly files: number;
  readonly bytes: number;
}
