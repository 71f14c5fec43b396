/**
 * The ports on which well-known images serve HTTP, by their documentation. A name without a slash is the last part of
 * an image's name from any publisher; a name that many images share has its owner, which is `library` for an official
 * image. The list has facts about images and no order, so add an image to the line of its port.
 */
const imagesByPort: Readonly<Record<number, string>> = {
  80: `caddy-l4 rote-frontend activepieces adventurelog-backend akaunting appsmith-ce appsmith-ee appwrite/console audiobookshelf
    azuracast baikal baserow budibase campfire chevereto cockpithq/cockpit cyberchef dokuwiki dolibarr drupal
    easyappointments excalidraw filebrowser/filebrowser filerun freescout freshrss gitlab-ce gitlab-ee glpi
    gotify/server grocy hatchet-dashboard heimdall hi.events-all-in-one hortusfox-web humhub it-tools jitsi/web
    joomla kanboard linkace linkstack lychee matomo mautic mazanoke mediawiki mixpost monica nextcloud
    ntfy once-campfire onlyoffice/documentserver orangehrm organizr osticket otterwiki passbolt
    pgadmin4 phpldapadmin phpmyadmin photoview pihole/pihole projectsend pterodactyl/panel pyrodactyl roundcubemail
    rss-bridge seafile-mc seatable smokeping snipe-it squidex steedos-community typecho vaultwarden
    vaultwarden/server vert wallabag wallos whoami wordpress yourls zulip-server library/caddy library/httpd library/nginx linuxserver/bookstack
    linuxserver/nextcloud linuxserver/nginx`,
  1080: "maildev",
  1111: "blinko",
  1234: "lemmy-ui",
  1337: "parse-server planka strapi",
  1411: "pocket-id",
  1880: "node-red",
  1984: "go2rtc",
  2022: "ossrs/oryx",
  2202: "ubooquity",
  2283: "immich-server",
  2333: "lavalink",
  2342: "photoprism",
  2368: "ghost",
  3000: `minepanel-frontend peppermint rote-backend ackee adguardhome adventurelog-frontend browserless/chrome browserless/chromium cal.com chaskiq chatwoot
    dify-web docmost documenso docuseal electric fider flowise forgejo formbricks gethomepage/homepage gitea gotenberg
    grafana grafana-enterprise grafana-oss hackmd hedgedoc invidious karakeep kokoro-web kutt langfuse libredb-studio
    linkwarden linuxserver/firefox linuxserver/webtop libreoffice lowcoder-ce mailtrain martin maybe metabase new-api
    nitropage one-api onetimesecret open-archiver openpanel-dashboard openspeedtest/latest openvscode-server outline
    pairdrop pingvin-share rallly reactive-resume redmine requarks/wiki rocket.chat serpbear silverbullet spliit
    splitpro teable trigger.dev twenty typebot-builder typebot-viewer umami usesend wakapi web-check zipline`,
  3001: "anythingllm logto uptime-kuma",
  3002: "rybbit-client",
  3010: "affine affine-graphql",
  3030: "traggo/server",
  3080: "librechat librechat-dev",
  3210: "convex-backend lobe-chat",
  3333: "ghostfolio openrefine",
  3456: "vikunja",
  3567: "supertokens-mysql supertokens-postgresql",
  3579: "ombi",
  3900: "dxflrs/garage",
  3909: "garage-webui",
  4000: "double-zero azimutt claper keila litellm litellm-database papercups teslamate trailbase",
  4001: "ontime picoshare",
  4005: "databasus",
  4040: "parse-dashboard",
  4200: "prefecthq/prefect",
  4242: "unleash-server",
  4318: "signoz-otel-collector",
  4512: "denokv",
  4533: "navidrome",
  4567: "nodebb",
  4848: "tubesync",
  4873: "verdaccio",
  4983: "drizzle-team/gateway",
  5000: `changedetection.io fileflows grampsweb imgcompress kavita libretranslate postiz-app redash registry
    whoogle-search`,
  5006: "actual-server",
  5055: "jellyseerr overseerr",
  5080: "openobserve",
  5212: "cloudreve",
  5225: "boxyhq/jackson",
  5230: "memos",
  5231: "yourselfhosted/slash",
  5232: "docker-radicale radicale",
  5244: "alist openlist",
  5380: "technitium/dns-server",
  5487: "palmr",
  5488: "jsreport",
  5540: "redisinsight",
  5556: "dexidp/dex",
  5572: "rclone",
  5601: "kibana opensearch-dashboards",
  5656: "edgedb gel",
  5678: "n8n",
  5800: "jlesage/firefox tor-browser",
  5984: "couchdb",
  6001: "soketi",
  6003: "poketube/poke",
  6052: "esphome",
  6157: "opengist",
  6167: "conduit conduwuit matrix-conduit",
  6333: "qdrant",
  6610: "1dev/server",
  6767: "bazarr",
  6789: "mageai",
  6791: "convex-dashboard",
  6805: "silex silex-platform",
  6806: "siyuan",
  6900: "argilla-quickstart argilla-server",
  7000: "databag",
  7080: "coder sourcegraph/server",
  7474: "neo4j",
  7476: "autobrr/qui",
  7512: "kuzzle",
  7575: "homarr",
  7700: "meilisearch",
  7745: "homebox",
  7768: "misaka_danmu_server",
  7860: "langflow",
  7878: "radarr",
  7880: "livekit-server",
  8000: `apprise apprise-api archivebox bugsink cachethq/docker casdoor castopod chroma chromadb community-edition
    cryptgeon flagsmith focalboard glitchtip healthchecks kong mayanedms netbox paperless-ng paperless-ngx
    plausible/analytics podfetch pyload-ng ryot saleor statusnook surrealdb unstructured-api
    windmill-labs/windmill woodpecker-server yamtrack`,
  8001: "kimai2",
  8006: "dockurr/macos dockurr/windows",
  8008: "synapse",
  8010: "languagetool",
  8025: "mailhog mailpit",
  8055: "directus",
  8065: "mattermost mattermost-enterprise-edition mattermost-team-edition",
  8069: "odoo",
  8080: `larapaper powersync-service adminer aptabase bentopdf bitnami/moodle cadvisor codercom/code-server commento dagu dashy data-importer
    dozzle drawio evolution-api ezbookkeeping fireflyiii/core flipt gatus geoserver glanceapp/glance goatcounter
    graphql-engine guacamole hurlenko/filebrowser infisical invoiceshelf jenkins keycloak kitchenowl kubo label-studio
    livekit/ingress marimo martialblog/limesurvey miniflux nginx-unprivileged nocodb open-webui owncast owncloud/server penpotapp/frontend
    plantuml-server redlib remark42 rethinkdb searxng sftpgo shiori shlink shlink-web-client signoz stalwart
    statping stirling-pdf swagger-ui temporalio/ui termix tolgee tomcat transfer.sh trilium weaviate weblate wekan`,
  8081: "metube mongo-express nexus3 pgweb redis-commander",
  8082: "traccar",
  8083: "calibre-web calibre-web-automated",
  8084: "calibre-web-automated-book-downloader",
  8085: "pgbackweb",
  8086: "influxdb",
  8088: "superset",
  8090: "beszel",
  8091: "minepanel-backend couchbase",
  8096: "emby jellyfin",
  8101: "stackauth/server",
  8108: "typesense",
  8112: "deluge",
  8123: "clickhouse clickhouse-server home-assistant",
  8181: "tautulli",
  8191: "flaresolverr",
  8200: "duplicati hashicorp/vault vault",
  8265: "tdarr",
  8288: "inngest",
  8334: "filestash",
  8384: "syncthing",
  8428: "victoria-metrics",
  8443: "linuxserver/code-server",
  8484: "grist",
  8502: "open_notebook",
  8529: "arangodb",
  8536: "dessalines/lemmy",
  8581: "homebridge",
  8686: "lidarr",
  8787: "readarr rstudio",
  8888: "base-notebook datascience-notebook minimal-notebook rainloop scipy-notebook tensorflow-notebook",
  8923: "anubis",
  8945: "pinchflat",
  8978: "cloudbeaver",
  8983: "solr",
  8989: "sonarr",
  9000: `goauthentik/server graylog/graylog libredesk listmonk maxio mealie peertube portainer portainer-ce sonarqube
    thelounge`,
  9001: "rustfs etherpad minio",
  9011: "fusionauth-app",
  9090: "linkding prometheus",
  9091: "authelia transmission",
  9093: "alertmanager",
  9117: "jackett",
  9157: "heyform/community-edition",
  9200: "elasticsearch opensearch",
  9696: "prowlarr",
  9898: "backrest",
  9980: "collabora/code",
  9998: "apache/tika",
  10000: "budibase/proxy",
  11080: "scrypted",
  11434: "ollama",
  12008: "metamcp",
  12345: "tianji",
  15672: "rabbitmq",
  18083: "emqx emqx-enterprise",
  18789: "clawdbot moltbot openclaw",
  19999: "netdata",
  22300: "joplin/server",
  25774: "komari",
  30000: "foundryvtt",
  32400: "plex pms-docker",
  40120: "spritsail/fivem",
  43211: "seanime",
  49392: "btcpayserver",
  51821: "wg-easy",
  52345: "checkmate-backend-mono checkmate-backend-mono-multiarch",
  53842: "gokapi",
  55555: "request-baskets",
  61208: "glances",
};

const imagePorts: ReadonlyMap<string, number> = new Map(
  Object.entries(imagesByPort).flatMap(([port, images]) =>
    images.split(/\s+/).map((image) => [image, Number(port)] as const),
  ),
);

/**
 * Returns the port on which a well-known image serves HTTP; undefined for any other image, and for variants with
 * PHP-FPM, which need a web server in front of them.
 */
export function getImageWebPort(image: string | undefined): number | undefined {
  const { owner, last, tag } = parseImageName(image);
  if (/(?:^|-)fpm(?:-|$)/.test(tag)) return undefined;
  return imagePorts.get(`${owner}/${last}`) ?? imagePorts.get(last);
}

/** Splits the name of an image into its last part, the part before it, and its tag. */
export function parseImageName(image = ""): { owner: string; last: string; tag: string } {
  const parts = image.replace(/@.*$/, "").toLowerCase().split("/");
  const [last = "", tag = ""] = (parts.pop() ?? "").split(":");
  const owner = parts.pop();
  // A part with a dot or a colon is the host of a registry.
  return { owner: owner === undefined || /[.:]/.test(owner) ? "library" : owner, last, tag };
}

/** Returns the name of an image without its tag and its digest. */
export function getRepository(image = ""): string {
  return image.replace(/@.*$/, "").replace(/:[^/]*$/, "");
}
