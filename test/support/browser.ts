/**
 * A minimal browser for signing in. It keeps the cookies of each origin, follows redirects on request, and fills in
 * forms.
 */
export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>();

  /**
   * Opens an address with the cookies of its origin, and follows no redirect. If a form is passed, sends it as a POST
   * request.
   */
  async open(address: string | URL, form?: Readonly<Record<string, string>>): Promise<Response> {
    const url = new URL(address);
    const jar = this.#cookies.get(url.origin) ?? new Map<string, string>();
    this.#cookies.set(url.origin, jar);
    const response = await fetch(url, {
      method: form ? "POST" : "GET",
      redirect: "manual",
      headers: { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join("; ") },
      ...(form ? { body: new URLSearchParams(form) } : {}),
    });
    for (const line of response.headers.getSetCookie()) {
      const [pair = ""] = line.split(";");
      const [name = "", ...value] = pair.split("=");
      if (value.join("=") === "") jar.delete(name);
      else jar.set(name, value.join("="));
    }
    return response;
  }

  /**
   * Follows redirects within an origin. Returns the last answer, or the URL if a redirect leads to another origin.
   */
  async follow(
    address: string | URL,
    form?: Readonly<Record<string, string>>,
  ): Promise<{ readonly response: Response; readonly url: URL } | { readonly away: URL }> {
    let url = new URL(address);
    let response = await this.open(url, form);
    for (let hops = 0; hops < 20; hops += 1) {
      const location = response.headers.get("location");
      if (location === null) return { response, url };
      await response.body?.cancel();
      const next = new URL(location, url);
      if (next.origin !== url.origin) return { away: next };
      url = next;
      response = await this.open(url);
    }
    throw new Error(`${String(address)} redirects in circles`);
  }
}
