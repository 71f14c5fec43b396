import { untilAborted } from "../../../base/aborting.ts";
import { AssistantError } from "../../errors.ts";
import type { Provider } from "../port.ts";
import type { ProviderBook } from "./port.ts";

/** What goes with a request; undefined for a provider near by that has no key. `unauthorized` for one on the web. */
export async function bearerFor(
  provider: Provider,
  book: ProviderBook,
  signal: AbortSignal,
): Promise<string | undefined> {
  const bearer = await untilAborted(book.bearer(provider, signal), signal);
  if (bearer !== undefined || provider.addressClass !== "public") return bearer;
  const signIn =
    provider.auth === "sign_in" ? `, or sign in with \`berth remote login ${provider.id}\`` : "";
  throw new AssistantError(
    "unauthorized",
    `there is no key for ${provider.id}, and nothing was sent. Set one with \`berth remote key ${provider.id}\`${signIn}`,
  );
}
