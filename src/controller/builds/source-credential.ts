import { BerthError } from "../../base/errors.ts";
import type { GitSource } from "../../resources/app-spec.ts";
import type { Store } from "../../store/store.ts";
import { parseGitCredential } from "../git/git-credential.ts";
import type { GitRepository } from "../git/port.ts";

/** A repository with what opens it. Throws `git_denied` for a Secret that is not there or holds nothing that fits. */
export function resolveGitRemote(store: Pick<Store, "secrets">, git: GitSource): GitRepository {
  if (git.credential === undefined) return { url: git.url };
  const values = store.secrets.reveal(git.credential);
  if (!values) {
    const ssh = !/^https?:/i.test(git.url);
    throw new BerthError(
      "git_denied",
      `source.git.credential names Secret "${git.credential}", which is not there`,
      {
        hint: `create it with: berth secrets set ${git.credential} ${ssh ? "sshKey=KEY" : "token=TOKEN"}`,
      },
    );
  }
  return { url: git.url, credential: parseGitCredential(git.credential, values) };
}
