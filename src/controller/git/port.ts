/**
 * Reading git repositories. Errors are BerthErrors: `git_unreachable` (no answer, or cut: worth
 * another try), `git_denied` (wants credentials, or others), `git_not_found` (no such repository,
 * branch, tag, commit or path), `payload_too_large` (over `limits`), `archive_invalid` (the commit holds
 * names or links that no honest git writes), `disk_full`. No message holds a credential, nor a URL's
 * user and password.
 */
export interface GitClient {
  /** The commit (40 hexadecimal digits) that `ref` names now: a branch, a tag, a commit; undefined is the remote's HEAD. */
  resolve(repository: GitRepository, ref: string | undefined, signal: AbortSignal): Promise<string>;
  /**
   * Puts the files of one commit into `dir`, which is empty, without history and without `.git`.
   * `ref` is what the commit was resolved from: servers that hand out no bare commits are asked for it.
   * Nothing in the repository can make a file land outside `dir`: links are kept as they are, and not followed.
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
  /** `https://`, `http://`, `ssh://` or `user@host:path`; never a path of this machine. */
  readonly url: string;
  readonly credential?: GitCredential | undefined;
}

export type GitCredential =
  | { readonly type: "token"; readonly username?: string | undefined; readonly token: string }
  | {
      readonly type: "sshKey";
      readonly privateKey: string;
      /** Lines of a known_hosts file; without them the first key of a host is trusted and kept. */
      readonly knownHosts?: string | undefined;
    };

export interface SourceLimits {
  readonly bytesMax: number;
  readonly filesMax: number;
}

export interface GitCheckout {
  /** Paths of submodules: they are not fetched, and whoever builds is told. */
  readonly submodules: readonly string[];
  readonly files: number;
  readonly bytes: number;
}
