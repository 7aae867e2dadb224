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

$paths = [
    'organization_change' => '/api/organisation',
    'product_change' => '/api/product',
    'product_stock_change' => '/api/product-stock',
    'stock_advice_status_change' => '/api/stock-advice',
    'expedition_status_change' => '/api/expedition',
    'expedition_booked_change' => '/api/expedition',
    'expedition_change' => '/api/expedition',
];

function read(string $url): array
{
    $header = 'Authorization: Bearer ' . getenv('USER_TOKEN');
    $http = ['header' => $header, 'timeout' => 10, 'ignore_errors' => true];
    $text = file_get_contents($url, false, stream_context_create(['http' => $http]));
    $status = explode(' ', $http_response_header[0] ?? '')[1] ?? '';
    if ($status === '410') {
        return [0, []]; // it was deleted
    }
    if ($status !== '200') {
        http_response_code(500);
        exit;
    }
    $record = json_decode($text, true, 512, JSON_THROW_ON_ERROR);
    return [$record['version'], $record];
}

// Stores the fields with a newer version than the stored one; returns their names.
function take(string $id, int $version, array $fields): array
{
    // In your shop this is a table: record, field, version, value.
    @mkdir('php-records');
    $lock = fopen('php-records/lock', 'c');
    flock($lock, LOCK_EX);
    $file = "php-records/$id.json";
    $record = file_exists($file) ? json_decode(file_get_contents($file), true) : [];
    $new = array_filter($fields, fn ($name) => ($record[$name]['version'] ?? 0) < $version, ARRAY_FILTER_USE_KEY);
    foreach ($new as $name => $value) {
        $record[$name] = ['version' => $version, 'value' => $value];
    }
    file_put_contents("php-records/$id.new", json_encode($record, JSON_THROW_ON_ERROR));
    rename("php-records/$id.new", $file);
    return array_keys($new);
}

$event = json_decode($body, true, 512, JSON_THROW_ON_ERROR);
if ($event['test'] ?? false) {
    error_log("test {$event['type']}");
    http_response_code(204);
    exit;
}
$data = $event['data'];
$names = [];
if (isset($data['changedFields'])) {
    [$version, $fields] = !array_diff($data['changedFields'], array_keys($data['fields'] ?? []))
        ? [$data['version'], $data['fields']]
        : read(getenv('BASE_URL') . $paths[$event['type']] . '/' . $event['id']);
    $names = take($event['id'], $version, $fields);
}
if ($names || !isset($data['changedFields'])) {
    error_log("{$event['type']} {$event['id']} " . implode(',', $names));
}
http_response_code(204);
