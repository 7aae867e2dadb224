<?php
// Receives webhooks of Longshore in PHP: docs/quick-start/eshop.md
$key = base64_decode(substr(getenv('WEBHOOK_SECRET'), strlen('whsec_')));
$body = file_get_contents('php://input');
$id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
$timestamp = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
$signatures = explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '');

$expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
$fits = array_filter($signatures, fn ($given) => hash_equals($expected, $given));
if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300 || !$fits) {
    http_response_code(401);
    exit;
}

$resources = [
    'organization_change' => 'organisation',
    'product_change' => 'product',
    'product_stock_change' => 'product-stock',
    'stock_advice_status_change' => 'stock-advice',
    'expedition_status_change' => 'expedition',
    'expedition_booked_change' => 'expedition',
    'expedition_change' => 'expedition',
    'expedition_deleted' => 'expedition',
];

function read(string $resource, string $id): array
{
    $url = getenv('BASE_URL') . "/api/$resource/$id";
    $header = 'Authorization: Bearer ' . getenv('USER_TOKEN');
    $http = ['header' => $header, 'timeout' => 10, 'ignore_errors' => true];
    $text = file_get_contents($url, false, stream_context_create(['http' => $http]));
    $status = explode(' ', $http_response_header[0] ?? '')[1] ?? '';
    if ($status === '410' || $status === '404') {
        return [0, []]; // it was deleted, or lost by a restore
    }
    if ($status !== '200') {
        http_response_code(500);
        exit;
    }
    $record = json_decode($text, true, 512, JSON_THROW_ON_ERROR);
    return [$record['version'], $record];
}

// Changes a stored record, alone; returns what the change returns.
function change(string $key, callable $change): array
{
    // In your shop this is a table: resource, record, field, version, value.
    @mkdir('php-records');
    $lock = fopen('php-records/lock', 'c');
    flock($lock, LOCK_EX);
    $file = "php-records/$key.json";
    $record = file_exists($file) ? json_decode(file_get_contents($file), true) : [];
    $changed = $change($record);
    file_put_contents("php-records/$key.new", json_encode($record, JSON_THROW_ON_ERROR));
    rename("php-records/$key.new", $file);
    return $changed;
}

// Stores the fields with a newer version than the stored one; returns their names.
function take(string $key, int $version, array $fields): array
{
    return change($key, function (array &$record) use ($version, $fields) {
        $new = array_filter($fields, fn ($name) => ($record[$name]['version'] ?? 0) < $version, ARRAY_FILTER_USE_KEY);
        foreach ($new as $name => $value) {
            $record[$name] = ['version' => $version, 'value' => $value];
        }
        return array_keys($new);
    });
}

// The service was set back to a backup: the stored versions may be of changes that are lost.
function readAgain(array $resources): void
{
    foreach (glob('php-records/*.json') as $file) {
        [$resource, $id] = explode('.', basename($file));
        if (!in_array($resource, $resources)) {
            continue;
        }
        change("$resource.$id", function (array &$record) {
            return $record = array_map(fn ($field) => ['version' => 0, 'value' => $field['value']], $record);
        });
        [$version, $fields] = read($resource, $id);
        // one that is there is not deleted; of one that is not, no more is kept than that
        $left = change("$resource.$id", function (array &$record) use ($fields) {
            return $record = array_filter($record, fn ($name) => ($name !== 'deleted') === (bool) $fields, ARRAY_FILTER_USE_KEY);
        });
        if ($fields) {
            take("$resource.$id", $version, $fields);
        } elseif (!$left) {
            unlink($file);
        }
    }
}

function handle(array $event, array $resources): void
{
    if ($event['test'] ?? false) {
        error_log("test {$event['type']}");
        return;
    }
    if ($event['type'] === 'restored') {
        readAgain($resources);
    }
    $data = $event['data'];
    if ($event['type'] === 'expedition_deleted') { // kept as such: an older event may come after it
        $data += ['changedFields' => ['deleted'], 'fields' => ['deleted' => true]];
    }
    $names = [];
    if (isset($data['changedFields'])) {
        $resource = $resources[$event['type']] ?? $event['type'];
        [$version, $fields] = !array_diff($data['changedFields'], array_keys($data['fields'] ?? []))
            ? [$data['version'], $data['fields']]
            : read($resource, $event['id']);
        $names = $fields ? take("$resource.{$event['id']}", $version, $fields) : [];
    }
    if ($names || !isset($data['changedFields'])) {
        error_log("{$event['type']} {$event['id']} " . implode(',', $names));
    }
}

$content = json_decode($body, true, 512, JSON_THROW_ON_ERROR);
foreach ($content['type'] === 'batch' ? $content['events'] : [$content] as $event) {
    handle($event, $resources);
}
http_response_code(204);
