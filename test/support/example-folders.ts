/**
 * The results of Berth for the example folders of the repository railwayapp/railpack (`examples/`, at commit b5e80580). One
 * line for each folder: its name, the description of the generated Dockerfile, and the start command; `pages` means
 * that Caddy serves them.
 */
const table = `
bun-pnpm | Node.js 24 with pnpm | bun index.ts
config-file | Bun | bun index.ts
cpp-cmake | refused: it has CMakeLists.txt, for which there is no recipe
cpp-meson | refused: it has meson.build, for which there is no recipe
deno-2 | Deno 2.2.2 | DENO_SERVE_ADDRESS=tcp:0.0.0.0:$PORT exec deno run --allow-all main.ts
dockerignore | the script start.sh on Debian | sh start.sh
dotnet-api | ASP.NET 8.0 | ASPNETCORE_URLS=http://+:$PORT exec dotnet csharp-api.dll
dotnet-cli | .NET 6.0 | ASPNETCORE_URLS=http://+:$PORT exec dotnet csharp-cli.dll
elixir-ecto | Elixir 1.18 | /app/bin/friends start
elixir-latest | Elixir 1.18 | /app/bin/friends start
elixir-phoenix | Phoenix on Elixir 1.16 | /app/bin/hello start
expo-spa | Bun, and Caddy for the pages that Expo makes | pages
gleam | refused: it has gleam.toml, for which there is no recipe
gleam-custom-version | refused: it has gleam.toml, for which there is no recipe
gleam-include-source | refused: it has gleam.toml, for which there is no recipe
go-cmd-dirs | Go 1.24 | /usr/local/bin/app
go-mod | Go 1.24 | /usr/local/bin/app
go-workspaces | refused: several modules of go.work are programs (./api, ./shared)
java-gradle | Java 21 with Gradle | JAVA_OPTS="$JAVA_OPTS PORT_OPTIONS" exec sh bin/app
java-maven | Java 17 with Maven | exec java PORT_OPTIONS -cp 'app.jar:lib/*' com.railpack.App
java-zulu-version | Java 8 with Maven | exec java PORT_OPTIONS -cp 'app.jar:lib/*' com.railpack.App
mise-config | Node.js 24 with npm | bun run index.ts
node-angular | Node.js 24 with npm, and Caddy for the pages that Angular makes | pages
node-astro | Node.js 24 with npm, and Caddy for the pages that Astro makes | pages
node-astro-server | Astro on Node.js 24 with pnpm | node dist/server/entry.mjs
node-bun | Bun | bun index.ts
node-bun-bunfig | Bun | bun index.ts
node-bun-no-deps | Bun | bun app.js
node-bun-workspaces | Bun 1.3.14 | bun index.ts
node-corepack | Node.js 20 with pnpm | node dist/index.js
node-cra | Node.js 24 with npm, and Caddy for the pages that Create React App makes | pages
node-latest-npm-native-deps | Node.js 24 with npm | node index.js
node-latest-pnpm-mise-native-deps | Node.js 26 with pnpm | node index.js
node-lts-npm-native-deps | Node.js 24 with npm | node index.js
node-next | Next.js on Node.js 24 with npm | next start
node-next-spa | Node.js 24 with npm, and Caddy for the pages that Next.js makes | pages
node-npm | Node.js 23.5.0 with npm | node index.js
node-npm-install-in-build | Node.js 23.5.0 with npm | node index.js
node-npm-workspaces | Node.js 24 with npm | node packages/api/index.js
node-nuxt | Nuxt on Node.js 24 with npm | node .output/server/index.mjs
node-nx-next | refused: package.json has neither a start script nor an existing main file
node-oldest | Node.js 20 with npm | node app.js
node-playwright | Node.js 26 with pnpm | node index.js
node-pnpm-11-engines | Node.js 24.16.0 with pnpm | node main.js
node-pnpm-engines | Node.js 22.19.0 with pnpm | node main.js
node-pnpm-json5 | refused: it only contains main.js, package.json5, pnpm-lock.yaml, test.json
node-pnpm-workspaces | Node.js 22.2.0 with pnpm | node index.js
node-prisma | Node.js 24 with npm | node dist/index.js
node-puppeteer | Node.js 24 with npm | node index.js
node-remix | Remix on Node.js 24 with npm | remix-serve ./build/server/index.js
node-spa-staticfile | Node.js 24 with npm, and Caddy for the pages that Astro makes | pages
node-svelte-kit | SvelteKit on Node.js 24 with pnpm | node build
node-tanstack-start | TanStack Start on Bun | node .output/server/index.mjs
node-turborepo | Node.js 24 with npm | npm run start
node-version-precedence | Node.js 24 with npm | node index.js
node-vite-custom-caddyfile | Bun, and Caddy for the pages that Vite makes | pages
node-vite-react | Node.js 24 with npm, and Caddy for the pages that Vite makes | pages
node-vite-react-router-spa | its own Dockerfile
node-vite-react-router-ssr | its own Dockerfile
node-vite-svelte | Node.js 24 with pnpm, and Caddy for the pages that Vite makes | pages
node-vite-vanilla | Bun, and Caddy for the pages that Vite makes | pages
node-yarn-1 | Node.js 24 with yarn | node dist/index.js
node-yarn-2 | Node.js 18.20.5 with yarn | node index.js
node-yarn-2-node-linker | Node.js 24 with yarn | node src/index.js
node-yarn-3 | Node.js 24 with yarn | node dist/index.js
node-yarn-4 | Node.js 24 with yarn | node dist/index.js
node-yarn-workspaces | Node.js 24 with yarn | node index.js
npm-out-of-sync-package-lock | Node.js 24 with npm | node index.js
php-laravel-11-react | Laravel on PHP 8.4 with Apache | apache2-foreground
php-laravel-12-react | Laravel on PHP 8.4 with Apache | apache2-foreground
php-vanilla | PHP 8.4 with Apache | apache2-foreground
php-vanilla-82 | PHP 8.4 with Apache | apache2-foreground
pnpm-corepack-runtime-usage | Node.js 26 with pnpm | node main.js
python-bot-only | Python 3.13 | python bot.py
python-compiled | Python 3.7 with pip | python main.py
python-django | Python 3.11 with uv | exec gunicorn --bind 0.0.0.0:$PORT mysite.wsgi
python-fastapi | Python 3.13 with uv | exec uvicorn --host 0.0.0.0 --port $PORT --proxy-headers --forwarded-allow-ips '*' main:app
python-fasthtml | Python 3.13 with pip | python main.py
python-flask | Python 3.13 with pip | exec gunicorn --bind 0.0.0.0:$PORT main:app
python-freethreaded | Python 3.14 with pip | python main.py
python-latest | Python 3.14 with pip | python main.py
python-latest-psycopg | Python 3.14 with uv | python main.py
python-oldest | Python 3.10 with pip | python main.py
python-pdm | Python 3.13 with pdm | python main.py
python-pip | Python 3.11.11 with pip | python app.py
python-pipfile | Python 3.13.2 with pipenv | python main.py
python-playwright | Python 3.14 with uv | python main.py
python-poetry | Python 3.13 with poetry | exec gunicorn --bind 0.0.0.0:$PORT main:app
python-psycopg-binary | Python 3.13.3 with uv | python main.py
python-system-deps | Python 3.11 with pip | python main.py
python-uv | Python 3.11 with uv | exec gunicorn --bind 0.0.0.0:$PORT main:app
python-uv-latest-locked | Python 3.14 with uv | python main.py
python-uv-packaged | Python 3.13 with uv | python-uv-packaged
python-uv-tool-versions | Python 3.9.23 with uv | python main.py
python-uv-workspace | Python 3.13 with uv | python main.py
python-uv-workspace-postgres | Python 3.13 with uv | python main.py
railpack-env-configuration | the script start.sh on Debian | bash start.sh
ruby-2 | Ruby 2.6.6 | exec ruby app.rb
ruby-3 | Ruby 3.2.1 | exec ruby --enable-yjit app.rb
ruby-3-precompiled | Ruby 3.2.1 | bundle exec ruby app.rb
ruby-execjs | Ruby 3.1.2 | exec ruby app.rb
ruby-jemalloc | Ruby 3.4 | bundle exec ruby app.rb
ruby-latest | Ruby 4 | exec ruby app.rb
ruby-local-deps | Ruby 3.1.2 | exec bundle exec ruby app.rb
ruby-no-version | Ruby 3.4 | exec bundle exec puma --bind tcp://0.0.0.0:$PORT
ruby-rails-api-app | Rails on Ruby 3.1.2 | rake db:migrate && bundle exec bin/rails server -b 0.0.0.0 -p \${PORT:-3000}
ruby-rails-postgres | Rails on Ruby 3.2.1 | rake db:migrate && bundle exec bin/rails server -b 0.0.0.0 -p \${PORT:-3000}
ruby-sinatra | Ruby 3.1.2 | RACK_ENV=production bundle exec puma
ruby-vanilla | Ruby 3.3.0 | exec ruby app.rb
ruby-with-node | Ruby 3.1.2 | exec ruby app.rb
rust-cargo-workspaces | Rust 1 | /usr/local/bin/app
rust-cargo-workspaces-glob | Rust 1.88.0 | /usr/local/bin/app
rust-custom-toolchain | Rust 1.59.0 | /usr/local/bin/app
rust-custom-version | Rust 1 | /usr/local/bin/app
rust-multiple-bins | Rust 1 | /usr/local/bin/app
rust-rocket | Rust 1 | ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=$PORT exec /usr/local/bin/app
rust-system-deps | Rust 1 | /usr/local/bin/app
secrets | refused: it only contains railpack.json, run.sh, test.json
shell-bash-arrays | the script start.sh on Debian | bash start.sh
shell-platform-arch | the script start.sh on Debian | sh start.sh
shell-script | the script start.sh on Debian | sh start.sh
staticfile-config | a static site, served by Caddy | pages
staticfile-index | a static site, served by Caddy | pages
staticfile-index-fallback | a static site, served by Caddy | pages
tanstack-latest | TanStack Start on Node.js 24 with npm | srvx --prod -s ../client dist/server/server.js
`;

/** Folders that become something else than their authors expect, with the reason. */
export const DIFFERENT: ReadonlyMap<string, string> = new Map([
  ["node-vite-custom-caddyfile", "its own Caddyfile is not used"],
  ["npm-out-of-sync-package-lock", "the build fails, because npm refuses the lock file"],
]);

/** The lines of the table by the name of the folder, without the name. */
export const EXAMPLE_FOLDERS: ReadonlyMap<string, string> = new Map(
  table
    .trim()
    .split("\n")
    .map((line) => {
      const [name = "", ...rest] = line.split(" | ");
      return [name, rest.join(" | ")] as const;
    }),
);
