import { BerthError } from "../../base/errors.ts";
import type { GitSource } from "../../resources/app.ts";
import type { Store } from "../../store/store.ts";
import { gitCredential } from "../git/credential.ts";
import type { GitRemote } from "../git/port.ts";

/** A repository with what opens it. Throws `git_denied` for a Secret that is not there or holds nothing that fits. */
export function remoteOf(store: Pick<Store, "secrets">, git: GitSource): GitRemote {
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
  return { url: git.url, credential: gitCredential(git.credential, values) };
}
