import { BerthError } from "../../base/errors.ts";
import type { GitSource } from "../../resources/app-source-spec.ts";
import type { Store } from "../../store/store.ts";
import { parseGitCredential } from "../git/git-credential.ts";
import type { GitRepository } from "../git/port.ts";

/** Returns a repository with its credential. Throws `git_denied` if the Secret is missing or has no suitable key. */
export function resolveGitRemote(store: Pick<Store, "secrets">, git: GitSource): GitRepository {
  if (git.credential === undefined) return { url: git.url };
  const values = store.secrets.reveal(git.credential);
  if (!values) {
    const ssh = !/^https?:/i.test(git.url);
    throw new BerthError(
      "git_denied",
      `source.git.credential names Secret "${git.credential}", which does not exist`,
      {
        hint: `create the Secret with: berth secrets set ${git.credential} ${ssh ? "sshKey=KEY" : "token=TOKEN"}`,
      },
    );
  }
  return { url: git.url, credential: parseGitCredential(git.credential, values) };
}
